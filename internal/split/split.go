// Package split shares one port between gRPC and HTTP/1: a program has one address, for
// calls as for a browser or a scraper.
//
// It makes each connection's handshake, if there is one, and looks at as many of its first
// bytes as tell the protocol. Nothing that a connection says, or does not say, holds up
// another. Run has waited for its goroutines when it returns.
package split

import (
	"bufio"
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/internal/backoff"
	"github.com/skerry-ft/skerry/internal/guard"
)

// http2Preface is how every HTTP/2 connection with prior knowledge begins (RFC
// 9113 §3.4). Its first bytes are no HTTP/1 method in use.
const http2Preface = "PRI * HTTP/2.0"

// maxSniffed bounds the connections that have not shown their first bytes. For
// one more, the oldest is closed: a client shows them with its first packets, so
// who has said nothing for longest is likely to be up to something.
const maxSniffed = 4_096

// maxAcceptDelay is the longest pause after an accept that went wrong in passing.
const maxAcceptDelay = time.Second

// Config says what is shared.
type Config struct {
	Listener net.Listener
	// Timeout is how long a connection has to show its first bytes, once it is secured.
	Timeout time.Duration
	// Secure makes the TLS handshake of a new connection, or gives it back as it is. It
	// may block, and is called for several at a time. After an error the connection is closed.
	Secure func(net.Conn) (guard.Secured, error)
	Log    zerolog.Logger
}

// Splitter shares one listener between gRPC, which keeps its own HTTP/2
// transport so, and HTTP/1. It is safe for concurrent use.
type Splitter struct {
	cfg     Config
	grpc    *half
	http    *half
	handing sync.WaitGroup

	ctx context.Context
	end context.CancelFunc // ends it; kept here because the halves' users close them

	mu       sync.Mutex
	sniffing map[net.Conn]uint64 // connections that said nothing yet, by age
	begun    uint64              // how many there have been
}

// New makes one; it starts nothing. Run works it.
func New(cfg Config) *Splitter {
	s := &Splitter{cfg: cfg, sniffing: make(map[net.Conn]uint64)}
	s.ctx, s.end = context.WithCancel(context.Background())
	s.grpc = &half{splitter: s, conns: make(chan net.Conn)}
	s.http = &half{splitter: s, conns: make(chan net.Conn)}
	return s
}

// GRPC is the listener of connections that begin with the preface of HTTP/2. They are
// [guard.Secured], as those of HTTP are; see guard.Accepted. Closing either listener closes
// the shared one.
func (s *Splitter) GRPC() net.Listener { return s.grpc }

// HTTP is the listener of all other connections.
func (s *Splitter) HTTP() net.Listener { return s.http }

// Run accepts until the splitter is closed, and returns when no connection is
// being sniffed any more.
func (s *Splitter) Run() {
	defer s.handing.Wait()
	pauses := backoff.Backoff{First: time.Millisecond, Most: maxAcceptDelay}
	for {
		conn, err := s.cfg.Listener.Accept()
		if err == nil {
			pauses.Reset()
			if oldest := s.begin(conn); oldest != nil {
				_ = oldest.Close() // its reader sees it
			}
			s.handing.Go(func() { s.hand(conn) })
			continue
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
		// Out of descriptors, or a client that went away while it was being
		// accepted: the next accept may well succeed.
		delay := pauses.Next()
		if delay == maxAcceptDelay {
			s.cfg.Log.Warn().Err(err).Msg("connections not accepted")
		}
		if backoff.Sleep(s.ctx, delay) != nil {
			return
		}
	}
}

// Close closes the listener and what is being sniffed; connections that were
// handed on belong to their servers. The second call does nothing.
func (s *Splitter) Close() error {
	if s.ctx.Err() != nil {
		return nil
	}
	s.end()
	return s.cfg.Listener.Close()
}

// begin notes that conn is being sniffed. The caller closes oldest, which makes room
// for it; nil: there is room.
func (s *Splitter) begin(conn net.Conn) (oldest net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.sniffing) >= maxSniffed {
		first := s.begun + 1
		for c, at := range s.sniffing {
			if at < first {
				oldest, first = c, at
			}
		}
		delete(s.sniffing, oldest)
	}
	s.begun++
	s.sniffing[conn] = s.begun
	return oldest
}

// forget notes that conn was sniffed.
func (s *Splitter) forget(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sniffing, conn)
}

// hand gives a connection to the half whose protocol it speaks.
func (s *Splitter) hand(conn net.Conn) {
	defer s.forget(conn)
	defer context.AfterFunc(s.ctx, func() { _ = conn.Close() })() // nothing was said, nothing is lost
	sniffed, to, err := s.sniff(conn)
	if err != nil {
		_ = conn.Close() // it was told what it understands, or said nothing that needs an answer
		return
	}
	select {
	case to.conns <- sniffed:
	case <-s.ctx.Done():
		_ = conn.Close() // we go, the client tries elsewhere
	}
}

// sniff makes a connection's handshake, and looks at as much of the HTTP/2 preface as
// it begins with.
func (s *Splitter) sniff(conn net.Conn) (net.Conn, *half, error) {
	secured, err := s.cfg.Secure(conn)
	if err != nil {
		return nil, nil, err
	}
	if err := secured.SetReadDeadline(time.Now().Add(s.cfg.Timeout)); err != nil {
		return nil, nil, err
	}
	c, to := &sniffedConn{secured, conn, bufio.NewReaderSize(secured, len(http2Preface))}, s.grpc
	for n := 1; n <= len(http2Preface) && to == s.grpc; n++ {
		first, err := c.ahead.Peek(n)
		if err != nil {
			return nil, nil, err
		}
		if string(first) != http2Preface[:n] {
			to = s.http
		}
	}
	return c, to, secured.SetReadDeadline(time.Time{})
}

// sniffedConn gives back the bytes that were read ahead.
type sniffedConn struct {
	guard.Secured
	accepted net.Conn
	ahead    *bufio.Reader
}

// NetConn is the connection as it was accepted, for what is set of the system's.
func (c *sniffedConn) NetConn() net.Conn { return c.accepted }

// Read returns the sniffed bytes, then the connection's.
func (c *sniffedConn) Read(p []byte) (int, error) { return c.ahead.Read(p) }

// half is the listener of one of the two protocols.
type half struct {
	splitter *Splitter
	conns    chan net.Conn
}

// Accept returns the next connection of this half's protocol.
func (h *half) Accept() (net.Conn, error) {
	select {
	case conn := <-h.conns:
		return conn, nil
	case <-h.splitter.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close closes the shared listener, so the other half too: they are closed
// together, when the server stops.
func (h *half) Close() error { return h.splitter.Close() }

// Addr is the shared listener's address.
func (h *half) Addr() net.Addr { return h.splitter.cfg.Listener.Addr() }
