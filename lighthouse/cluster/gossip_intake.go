package cluster

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/skerry-ft/skerry/internal/backoff"
	"github.com/skerry-ft/skerry/internal/perhost"
	"github.com/skerry-ft/skerry/lighthouse/cluster/internal/gossiphead"
	"github.com/skerry-ft/skerry/lighthouse/internal/network"
)

// What strangers may take of gossip's port. memberlist reads up to 20 MiB of a stream
// before it is decrypted, of any number of streams, and without a key makes room for
// as many nodes as a stream announces.
const (
	// maxGossipStreams bounds the streams at a time, maxGossipPerHost those of one
	// address, and scarceGossip the same once half of them are taken. A server has one
	// or two to each other one, for a moment.
	maxGossipStreams = 64
	maxGossipPerHost = 16
	scarceGossip     = 8

	// maxGossipBytes bounds what is read of a stream: a pool of wire.MaxServers
	// servers that have short names.
	maxGossipBytes = 256 << 10

	// maxGossipPacket bounds a packet: memberlist fills 1,400 bytes at most, and what
	// encrypts them adds less than 100.
	maxGossipPacket = 2 << 10
)

// gossipTransport carries gossip over a network, within bounds. Its goroutines end with Shutdown.
type gossipTransport struct {
	network  network.Network
	listener net.Listener
	socket   net.PacketConn // of the listener's port

	plain   bool // what is not encrypted is read
	hosts   *perhost.Counter
	refused func(from net.Addr, why error)
	streams chan net.Conn
	packets chan *memberlist.Packet

	ctx     context.Context
	cancel  context.CancelFunc // ends it; kept here because memberlist calls Shutdown
	running sync.WaitGroup
}

// newGossipTransport listens. refused is told of streams that were cut, and must not
// block.
func newGossipTransport(n network.Network, address string, plain bool, refused func(net.Addr, error)) (*gossipTransport, error) {
	listener, socket, err := network.ListenBoth(n, address)
	if err != nil {
		return nil, err
	}
	t := &gossipTransport{
		network: n, listener: listener, socket: socket, plain: plain, refused: refused,
		hosts:   perhost.New(perhost.Limits{Max: maxGossipStreams, PerHost: maxGossipPerHost, Scarce: scarceGossip}),
		streams: make(chan net.Conn), packets: make(chan *memberlist.Packet),
	}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	t.running.Go(t.takePackets)
	t.running.Go(t.takeStreams)
	return t, nil
}

// FinalAdvertiseAddr implements memberlist.Transport.
func (t *gossipTransport) FinalAdvertiseAddr(ip string, port int) (net.IP, int, error) {
	at, err := netip.ParseAddr(ip)
	return at.AsSlice(), port, err
}

// WriteTo implements memberlist.Transport.
func (t *gossipTransport) WriteTo(b []byte, address string) (time.Time, error) {
	to, err := net.ResolveUDPAddr("udp", address)
	if err == nil {
		_, err = t.socket.WriteTo(b, to)
	}
	return time.Now(), err
}

// DialTimeout implements memberlist.Transport.
func (t *gossipTransport) DialTimeout(address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(t.ctx, timeout)
	defer cancel()
	return t.network.Dial(ctx, address)
}

// PacketCh implements memberlist.Transport.
func (t *gossipTransport) PacketCh() <-chan *memberlist.Packet { return t.packets }

// StreamCh implements memberlist.Transport.
func (t *gossipTransport) StreamCh() <-chan net.Conn { return t.streams }

// Shutdown implements memberlist.Transport. Streams that are being looked at are cut.
func (t *gossipTransport) Shutdown() error {
	t.cancel()
	_, _ = t.listener.Close(), t.socket.Close() // where memberlist could not begin, for the second time
	t.running.Wait()
	return nil
}

func (t *gossipTransport) takePackets() {
	buf := make([]byte, maxGossipPacket+1)
	for t.ctx.Err() == nil {
		n, from, err := t.socket.ReadFrom(buf)
		if err != nil {
			t.failed(t.socket.LocalAddr(), err)
			continue
		}
		if n == 0 || n > maxGossipPacket {
			continue
		}
		select {
		case t.packets <- &memberlist.Packet{Buf: bytes.Clone(buf[:n]), From: from, Timestamp: time.Now()}:
		case <-t.ctx.Done():
		}
	}
}

// failed tells that nothing could be taken, because descriptors ran out, say, and waits a moment.
func (t *gossipTransport) failed(at net.Addr, err error) {
	if backoff.Sleep(t.ctx, gossipEvery) == nil { // else this transport ends
		t.refused(at, err)
	}
}

func (t *gossipTransport) takeStreams() {
	for t.ctx.Err() == nil {
		conn, err := t.listener.Accept()
		if err != nil {
			t.failed(t.listener.Addr(), err)
			continue
		}
		place, err := t.hosts.Enter(conn.RemoteAddr())
		if err != nil {
			t.refused(conn.RemoteAddr(), err)
			_ = conn.Close() // its sender comes again
			continue
		}
		t.running.Go(func() { t.pass(newGossipStream(conn, place)) })
	}
}

// pass gives memberlist a stream, once its head is known to be within bounds if
// anybody may have sent it.
func (t *gossipTransport) pass(s *gossipStream) {
	if t.plain {
		stop := context.AfterFunc(t.ctx, func() { _ = s.Conn.Close() })
		err := s.check()
		stop()
		if err != nil {
			t.refused(s.RemoteAddr(), err)
			_ = s.Close() // it is of nobody who gossips
			return
		}
	}
	select {
	case t.streams <- s:
	case <-t.ctx.Done():
		_ = s.Close() // nobody reads it any more
	}
}

// gossipStream is a connection of which no more than so many bytes are read.
type gossipStream struct {
	net.Conn
	ahead *bufio.Reader // what was looked at, and then the connection
	left  int
	once  sync.Once
	place perhost.Place
}

func newGossipStream(conn net.Conn, place perhost.Place) *gossipStream {
	return &gossipStream{Conn: conn, ahead: bufio.NewReaderSize(conn, 512), place: place, left: maxGossipBytes}
}

// Read fails once too much was read.
func (s *gossipStream) Read(p []byte) (int, error) {
	if s.left <= 0 {
		return 0, fmt.Errorf("over %d bytes on a stream of gossip", maxGossipBytes)
	}
	n, err := s.ahead.Read(p[:min(len(p), s.left)])
	s.left -= n
	return n, err
}

// Close closes the connection.
func (s *gossipStream) Close() error {
	s.once.Do(s.place.Leave)
	return s.Conn.Close()
}

// check looks at what a stream begins with, and takes none of it.
func (s *gossipStream) check() error {
	if err := s.SetReadDeadline(time.Now().Add(gossipTimeout)); err != nil {
		return err
	}
	return gossiphead.Check(s.ahead)
}
