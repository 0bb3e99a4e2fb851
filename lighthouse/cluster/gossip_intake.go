package cluster

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/skerry-ft/skerry/internal/backoff"
	"github.com/skerry-ft/skerry/internal/perhost"
	"github.com/skerry-ft/skerry/internal/wire"
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

// The first bytes of what memberlist sends (its net.go).
const (
	gossipPushPull   = 6
	gossipUser       = 8
	gossipCompressed = 9
	gossipLabel      = 244
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
	err := errors.Join(t.listener.Close(), t.socket.Close())
	t.running.Wait()
	return err
}

func (t *gossipTransport) takePackets() {
	buf := make([]byte, maxGossipPacket+1)
	for t.ctx.Err() == nil {
		n, from, err := t.socket.ReadFrom(buf)
		if err != nil {
			_ = backoff.Sleep(t.ctx, gossipEvery) // the loop looks at the ctx
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

func (t *gossipTransport) takeStreams() {
	for t.ctx.Err() == nil {
		conn, err := t.listener.Accept()
		if err != nil { // out of descriptors, or this transport ends
			_ = backoff.Sleep(t.ctx, gossipEvery) // the loop looks at the ctx
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

// check looks at what a stream begins with, and takes none of it: memberlist makes
// room for what is announced there.
func (s *gossipStream) check() error {
	if err := s.SetReadDeadline(time.Now().Add(gossipTimeout)); err != nil {
		return err
	}
	h := gossipHead{from: s.ahead}
	kind, err := h.one()
	if err == nil && kind == gossipLabel {
		var size byte
		if size, err = h.one(); err == nil {
			_, err = h.next(int(size))
		}
		if err == nil {
			kind, err = h.one()
		}
	}
	switch {
	case err != nil:
		return fmt.Errorf("read what gossip begins with: %w", err)
	case kind == gossipUser, kind == gossipCompressed:
		return fmt.Errorf("a stream of gossip of kind %d, which this server does not read without a key", kind)
	case kind == gossipPushPull:
		return h.pool()
	}
	return nil
}

// gossipHead reads on in a stream's beginning, and takes none of it.
type gossipHead struct {
	from *bufio.Reader
	at   int
}

func (h *gossipHead) next(n int) ([]byte, error) {
	b, err := h.from.Peek(h.at + n)
	if err != nil {
		return nil, err
	}
	b = b[h.at:]
	h.at += n
	return b, nil
}

func (h *gossipHead) one() (byte, error) {
	b, err := h.next(1)
	if err != nil {
		return 0, err
	}
	return b[0], nil
}

var errGossipHead = errors.New("the head of a pool of gossip is malformed")

// pool reads the head of a pool: a msgpack map of how many nodes and bytes follow, and
// a flag, each once.
func (h *gossipHead) pool() error {
	most := map[string]uint64{"Nodes": wire.MaxServers, "UserStateLen": 0, "Join": 1}
	if b, err := h.one(); err != nil || b != 0x80|byte(len(most)) {
		return errors.Join(errGossipHead, err)
	}
	for len(most) > 0 {
		name, err := h.text()
		if err != nil {
			return err
		}
		value, err := h.number()
		if err != nil {
			return err
		}
		bound, ok := most[name]
		if !ok {
			return errGossipHead
		}
		if value > bound {
			return fmt.Errorf("a pool of gossip with %s = %d, want at most %d", name, value, bound)
		}
		delete(most, name)
	}
	return nil
}

// text reads a string of up to 31 bytes.
func (h *gossipHead) text() (string, error) {
	b, err := h.one()
	if err != nil || b&0xe0 != 0xa0 {
		return "", errors.Join(errGossipHead, err)
	}
	text, err := h.next(int(b & 0x1f))
	return string(text), err
}

// number reads a whole number that is not negative, or a flag.
func (h *gossipHead) number() (uint64, error) {
	b, err := h.one()
	switch {
	case err != nil:
		return 0, err
	case b < 0x80:
		return uint64(b), nil
	case b == 0xc2, b == 0xc3:
		return uint64(b & 1), nil
	case b < 0xcc, b > 0xd3:
		return 0, errGossipHead
	}
	size := 1 << (b & 3) // 0xcc to 0xcf are unsigned, 0xd0 to 0xd3 signed; of 1 to 8 bytes
	raw, err := h.next(size)
	if err != nil {
		return 0, err
	}
	var wide [8]byte
	if b >= 0xd0 && raw[0]&0x80 != 0 {
		return 0, errGossipHead
	}
	copy(wide[8-size:], raw)
	return binary.BigEndian.Uint64(wide[:]), nil
}
