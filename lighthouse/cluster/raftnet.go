package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/wire"
)

const (
	// raftDialTimeout bounds a dial of raft's, and raftIOTimeout one message.
	raftDialTimeout = time.Second
	raftIOTimeout   = 5 * time.Second

	// raftPool is how many idle connections are kept to each server.
	raftPool = 3

	// maxRaftConns bounds the connections that raft accepts, and
	// maxRaftConnsPerHost those of one address, as guard.Limits has it. Each other
	// server has a few.
	maxRaftConns        = 256
	maxRaftConnsPerHost = 32

	// raftMagic opens every connection of raft's. It is followed by the
	// cluster's id and the raft id of the server that is meant, each ended by a
	// newline. Without them a leader could write its log into a server that
	// took over an address: of another cluster, or empty under a new id; and
	// an empty server's votes would count as those of the one before it.
	raftMagic = "skerry-raft/1\n"
)

// raftStream carries raft's connections. Every one says first whom it means.
// It is safe for concurrent use.
type raftStream struct {
	listener  net.Listener
	dial      func(ctx context.Context, address string) (net.Conn, error)
	accept    func(net.Conn) (net.Conn, error) // has the other end show what the guard asks for
	advertise raftAddr
	cluster   string
	id        string
	hello     time.Duration // how long the guard and the first words may take
	refused   func(from net.Addr, why error)
	ready     chan accepted // raft's to take
	begin     sync.Once
	running   sync.WaitGroup

	ctx context.Context
	end context.CancelFunc // ends it; kept here because raft calls Close
}

// newRaftStream makes one for a server that others know as self, whose connections have
// hello to say whom they mean. Its user sets dial.
func newRaftStream(listener net.Listener, self wire.Server, hello time.Duration, refused func(net.Addr, error)) *raftStream {
	s := &raftStream{
		listener: listener, accept: func(conn net.Conn) (net.Conn, error) { return conn, nil },
		advertise: raftAddr(self.RaftAddress), cluster: self.Cluster, id: self.RaftID,
		hello: hello, refused: refused, ready: make(chan accepted),
	}
	s.ctx, s.end = context.WithCancel(context.Background())
	return s
}

// accepted is a connection that has said whom it means, or why there is none.
type accepted struct {
	conn net.Conn
	err  error
}

// raftAddr is an address as raft passes it on.
type raftAddr string

func (raftAddr) Network() string  { return "tcp" }
func (a raftAddr) String() string { return string(a) }

// Dial connects and says whom it means.
func (s *raftStream) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	id, where, found := strings.Cut(string(address), "@")
	if !found {
		return nil, fmt.Errorf("dial %s: no raft id is named", address)
	}
	ctx, cancel := context.WithTimeout(context.Background(), min(timeout, raftDialTimeout))
	defer cancel()
	conn, err := s.dial(ctx, where)
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(raftDialTimeout)) // a closed connection shows below
	if _, err := io.WriteString(conn, raftMagic+s.cluster+"\n"+id+"\n"); err != nil {
		_ = conn.Close() // the write's error tells why
		return nil, fmt.Errorf("greet raft at %s: %w", where, err)
	}
	return conn, conn.SetDeadline(time.Time{})
}

// limitRaft bounds what strangers may take of raft's port: one host leaves room
// for the others, and what does not read is cut.
func limitRaft(ln net.Listener, refused func(net.Addr, error)) net.Listener {
	return guard.Limit(ln, guard.Limits{
		MaxConns: maxRaftConns, MaxPerHost: maxRaftConnsPerHost, WriteTimeout: raftIOTimeout, Refused: refused,
	})
}

// Accept returns the next connection that has proved the token and said whom it means:
// raft makes buffers of 256 KiB for each that it is given, before it reads.
func (s *raftStream) Accept() (net.Conn, error) {
	s.begin.Do(func() { s.running.Go(s.take) })
	select {
	case a := <-s.ready:
		return a.conn, a.err
	case <-s.ctx.Done():
		return nil, net.ErrClosed
	}
}

// take accepts connections until Close. Each is greeted beside the others, so that a
// silent one holds up nobody.
func (s *raftStream) take() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			if !s.give(accepted{err: err}) {
				return
			}
			continue // raft asks again after a while
		}
		forget := s.keep(conn)
		s.running.Go(func() {
			greeted, err := s.greet(conn)
			if err != nil {
				s.refused(conn.RemoteAddr(), err)
			}
			if err != nil || !s.give(accepted{conn: &raftConn{greeted, forget}}) {
				forget()
				_ = conn.Close() // its dialler sees it
			}
		})
	}
}

// keep has Close cut conn, and wait until it is cut. forget takes that back; it says
// whether there was anything to take back.
func (s *raftStream) keep(conn net.Conn) (forget func() bool) {
	s.running.Add(1) // given back once: stop returns true if the cut never begins
	stop := context.AfterFunc(s.ctx, func() {
		defer s.running.Done()
		_ = conn.Close() // its reader sees it
	})
	return func() bool {
		stopped := stop()
		if stopped {
			s.running.Done()
		}
		return stopped
	}
}

// give waits until raft takes a, and says whether it did.
func (s *raftStream) give(a accepted) bool {
	select {
	case s.ready <- a:
		return true
	case <-s.ctx.Done():
		return false
	}
}

// Addr is where other servers reach this one.
func (s *raftStream) Addr() net.Addr { return s.advertise }

// Close stops accepting and cuts what was accepted. When it returns nothing is told to
// anybody any more: what raft could not write may be taken for written from then on.
func (s *raftStream) Close() error {
	s.end()
	err := s.listener.Close()
	s.running.Wait()
	return err
}

// raftConn is an accepted connection, which the stream's Close cuts.
type raftConn struct {
	net.Conn
	forget func() bool // by the stream
}

// greet reads the first words byte by byte, once the guard has let the other end in:
// they are few, and what follows is raft's.
func (s *raftStream) greet(conn net.Conn) (net.Conn, error) {
	if err := conn.SetDeadline(time.Now().Add(s.hello)); err != nil {
		return nil, err
	}
	conn, err := s.accept(conn)
	if err != nil {
		return nil, err
	}
	magic := make([]byte, len(raftMagic))
	if _, err := io.ReadFull(conn, magic); err != nil {
		return nil, fmt.Errorf("read its first words: %w", err)
	}
	if string(magic) != raftMagic {
		return nil, errors.New("no raft preamble from the peer")
	}
	cluster, err := readLine(conn, wire.MaxClusterBytes)
	if err != nil {
		return nil, err
	}
	id, err := readLine(conn, wire.MaxServerIDBytes)
	switch {
	case err != nil:
		return nil, err
	case cluster != s.cluster:
		return nil, fmt.Errorf("it is of cluster %q, this is %s", cluster, s.cluster)
	case id != s.id:
		return nil, fmt.Errorf("it means server %q, this is %s", id, s.id)
	}
	return conn, conn.SetDeadline(time.Time{})
}

// readLine reads up to a newline, at most limit bytes.
func readLine(from io.Reader, limit int) (string, error) {
	var line []byte
	one := make([]byte, 1)
	for len(line) <= limit {
		if _, err := io.ReadFull(from, one); err != nil {
			return "", fmt.Errorf("read its first words: %w", err)
		}
		if one[0] == '\n' {
			return string(line), nil
		}
		line = append(line, one[0])
	}
	return "", fmt.Errorf("a word of its first is over %d bytes", limit)
}

// Close closes the connection.
func (c *raftConn) Close() error {
	c.forget()
	return c.Conn.Close()
}

// raftPeers is raft's transport over TCP. It dials servers by id, where they
// are now, and notes what each has acknowledged. It is safe for concurrent
// use.
type raftPeers struct {
	*raft.NetworkTransport
	where func(id raft.ServerID, otherwise raft.ServerAddress) raft.ServerAddress

	mu   sync.Mutex
	term uint64 // in which the acks came
	acks map[raft.ServerID]ack
	// kept is up to where the log of a server is known to go for ever: it has
	// acknowledged that, and it was committed. This outlives the term.
	kept map[raft.ServerID]uint64
}

// ack is what a leader knows of a follower's log.
type ack struct {
	index uint64    // acknowledged up to here
	at    time.Time // of the last answer
}

func newRaftPeers(stream *raftStream, log hclog.Logger,
	where func(raft.ServerID, raft.ServerAddress) raft.ServerAddress) *raftPeers {
	return &raftPeers{
		// One message at a time: it tells what was acknowledged, and pipelining
		// gains nothing at our rates.
		NetworkTransport: raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
			Stream: stream, MaxPool: raftPool, MaxRPCsInFlight: 1, Timeout: raftIOTimeout, Logger: log}),
		where: where,
		acks:  make(map[raft.ServerID]ack),
		kept:  make(map[raft.ServerID]uint64),
	}
}

// aim is the address under which a server is dialled: whom, and where.
func (p *raftPeers) aim(id raft.ServerID, target raft.ServerAddress) raft.ServerAddress {
	return raft.ServerAddress(id) + "@" + p.where(id, target)
}

// acked returns what is known of a server's log.
func (p *raftPeers) acked(id raft.ServerID) ack {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.acks[id]
}

// promised returns up to where a server's log must go: what it acknowledged to
// this server, while it leads in that term, or of that what was committed. A
// server that does not lead gives term 0.
func (p *raftPeers) promised(id raft.ServerID, term, committed uint64) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if term == 0 || term != p.term {
		return p.kept[id]
	}
	index := p.acks[id].index
	if sure := min(index, committed); sure > p.kept[id] {
		if len(p.kept) >= wire.MaxServers {
			clear(p.kept) // they are learnt again within seconds
		}
		p.kept[id] = sure
	}
	return max(index, p.kept[id])
}

// note keeps that a server answered in a term, with its log known to reach
// index. What it acknowledged in an earlier term may have been cut off since.
func (p *raftPeers) note(id raft.ServerID, term, index uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if term > p.term {
		p.term = term
		clear(p.acks)
	}
	if term == p.term {
		p.acks[id] = ack{index: max(index, p.acks[id].index), at: time.Now()}
	}
}

// AppendEntries implements raft.Transport.
func (p *raftPeers) AppendEntries(id raft.ServerID, target raft.ServerAddress,
	args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	err := p.NetworkTransport.AppendEntries(id, p.aim(id, target), args, resp)
	if err == nil {
		index := uint64(0)
		if n := len(args.Entries); resp.Success && n > 0 {
			index = args.Entries[n-1].Index
		} else if resp.Success {
			index = args.PrevLogEntry
		}
		p.note(id, args.Term, index)
	}
	return err
}

// InstallSnapshot implements raft.Transport.
func (p *raftPeers) InstallSnapshot(id raft.ServerID, target raft.ServerAddress,
	args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	err := p.NetworkTransport.InstallSnapshot(id, p.aim(id, target), args, resp, data)
	if err == nil && resp.Success {
		p.note(id, args.Term, args.LastLogIndex)
	}
	return err
}

// RequestVote implements raft.Transport.
func (p *raftPeers) RequestVote(id raft.ServerID, target raft.ServerAddress,
	args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	return p.NetworkTransport.RequestVote(id, p.aim(id, target), args, resp)
}

// RequestPreVote implements raft.WithPreVote.
func (p *raftPeers) RequestPreVote(id raft.ServerID, target raft.ServerAddress,
	args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	return p.NetworkTransport.RequestPreVote(id, p.aim(id, target), args, resp)
}

// TimeoutNow implements raft.Transport.
func (p *raftPeers) TimeoutNow(id raft.ServerID, target raft.ServerAddress,
	args *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse) error {
	return p.NetworkTransport.TimeoutNow(id, p.aim(id, target), args, resp)
}

// Close cuts all connections, idle ones too.
func (p *raftPeers) Close() error {
	err := p.NetworkTransport.Close()
	p.CloseStreams()
	return err
}
