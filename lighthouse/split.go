package lighthouse

import (
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

// splitter shares one listener between gRPC, which keeps its own HTTP/2
// transport so, and HTTP/1. It is safe for concurrent use.
type splitter struct {
	listener net.Listener
	grpc     *half
	http     *half
	timeout  time.Duration // for the first bytes
	secure   func(net.Conn) (guard.Secured, error)
	log      zerolog.Logger

	handing sync.WaitGroup
	closed  chan struct{}

	mu       sync.Mutex
	closing  bool
	sniffing map[net.Conn]uint64 // connections that said nothing yet, by age
	begun    uint64              // how many there have been
}

// newSplitter makes one whose connections have that long to show their first
// bytes; secure makes their TLS handshakes before. run works it.
func newSplitter(
	listener net.Listener, timeout time.Duration, secure func(net.Conn) (guard.Secured, error), log zerolog.Logger,
) *splitter {
	s := &splitter{
		listener: listener,
		timeout:  timeout,
		secure:   secure,
		log:      log,
		closed:   make(chan struct{}),
		sniffing: make(map[net.Conn]uint64),
	}
	s.grpc = &half{splitter: s, conns: make(chan net.Conn)}
	s.http = &half{splitter: s, conns: make(chan net.Conn)}
	return s
}

// run accepts until the splitter is closed, and returns when no connection is
// being sniffed any more.
func (s *splitter) run() {
	defer s.handing.Wait()
	pauses := backoff.Backoff{First: time.Millisecond, Most: maxAcceptDelay}
	for {
		conn, err := s.listener.Accept()
		if err == nil {
			pauses.Reset()
			oldest, ok := s.begin(conn)
			if oldest != nil {
				_ = oldest.Close() // its reader sees it
			}
			if ok {
				s.handing.Go(func() { s.hand(conn) })
			} else {
				_ = conn.Close() // it has said nothing yet
			}
			continue
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
		// Out of descriptors, or a client that went away while it was being
		// accepted: the next accept may well succeed.
		delay := pauses.Next()
		if delay == maxAcceptDelay {
			s.log.Warn().Err(err).Msg("connections not accepted")
		}
		select {
		case <-s.closed:
			return
		case <-time.After(delay):
		}
	}
}

// close closes the listener and what is being sniffed; connections that were
// handed on belong to their servers. The second call does nothing.
func (s *splitter) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return nil
	}
	s.closing = true
	close(s.closed)
	for conn := range s.sniffing {
		_ = conn.Close() // nothing was said, nothing is lost
	}
	return s.listener.Close()
}

// begin notes that conn is being sniffed; false if the splitter is closed. The
// caller closes oldest, which makes room for it.
func (s *splitter) begin(conn net.Conn) (oldest net.Conn, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return nil, false
	}
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
	return oldest, true
}

// end notes that conn was sniffed.
func (s *splitter) end(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sniffing, conn)
}

// hand reads a connection's first bytes and gives it to one of the halves.
func (s *splitter) hand(conn net.Conn) {
	defer s.end(conn)
	secured, err := s.secure(conn)
	if err != nil {
		_ = conn.Close() // it was told what it understands
		return
	}
	first, err := sniff(secured, s.timeout)
	if err != nil {
		_ = conn.Close() // it said nothing that needs an answer
		return
	}
	to := s.http
	if first == http2Preface {
		to = s.grpc
	}
	select {
	case to.conns <- &sniffedConn{Secured: secured, first: []byte(first)}:
	case <-s.closed:
		_ = conn.Close() // we go, the client tries elsewhere
	}
}

// sniff reads as much of the HTTP/2 preface as the connection begins with, and
// no more than one byte that differs.
func sniff(conn net.Conn, timeout time.Duration) (string, error) {
	if err := conn.SetReadDeadline(time.Now().Add(timeout)); err != nil {
		return "", err
	}
	buf := make([]byte, len(http2Preface))
	n := 0
	for n < len(buf) {
		k, err := conn.Read(buf[n:])
		n += k
		if string(buf[:n]) != http2Preface[:n] {
			break
		}
		if err != nil {
			return "", err
		}
	}
	return string(buf[:n]), conn.SetReadDeadline(time.Time{})
}

// sniffedConn replays the bytes that were read ahead.
type sniffedConn struct {
	guard.Secured
	first []byte
}

// Read returns the sniffed bytes, then the connection's.
func (c *sniffedConn) Read(p []byte) (int, error) {
	if len(c.first) == 0 {
		return c.Secured.Read(p)
	}
	n := copy(p, c.first)
	c.first = c.first[n:]
	return n, nil
}

// half is the listener of one of the two protocols.
type half struct {
	splitter *splitter
	conns    chan net.Conn
}

// Accept returns the next connection of this half's protocol.
func (h *half) Accept() (net.Conn, error) {
	select {
	case conn := <-h.conns:
		return conn, nil
	case <-h.splitter.closed:
		return nil, net.ErrClosed
	}
}

// Close closes the shared listener, so the other half too: they are closed
// together, when the server stops.
func (h *half) Close() error { return h.splitter.close() }

// Addr is the shared listener's address.
func (h *half) Addr() net.Addr { return h.splitter.listener.Addr() }
