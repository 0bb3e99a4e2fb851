package lighthouse

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/lighthouse/cluster"
)

// link is this server's connection to the leader, while another server leads. It
// is safe for concurrent use.
type link struct {
	guard *guard.Guard

	mu     sync.Mutex
	addr   string
	conn   *grpc.ClientConn
	closed bool
}

// errLinkClosed says that this server stops.
var errLinkClosed = errors.New("this lighthouse stops")

// to returns the connection to the leader at addr. One to another address is
// closed, which ends every call on it: that one no longer leads.
func (l *link) to(addr string) (*grpc.ClientConn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return nil, errLinkClosed
	case l.conn != nil && l.addr == addr:
		return l.conn, nil
	}
	l.cutLocked()
	conn, err := cluster.Dial(l.guard, addr)
	if err != nil {
		return nil, err
	}
	l.addr, l.conn = addr, conn
	return conn, nil
}

// keep cuts the connection unless it goes to addr.
func (l *link) keep(addr string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.addr != addr {
		l.cutLocked()
	}
}

// broken cuts a connection on which a call failed, so that the next is made
// anew, without the old one's backoff.
func (l *link) broken(conn *grpc.ClientConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn == conn {
		l.cutLocked()
	}
}

func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.cutLocked()
}

func (l *link) cutLocked() {
	if l.conn != nil {
		_ = l.conn.Close() // calls on it end, and are made again
	}
	l.conn, l.addr = nil, ""
}

// follow cuts the link when the leader changes, so that calls that hang at an
// old one, which may be stopped, end at once. It ends with ctx.
func (s *Server) follow(ctx context.Context) {
	defer s.link.close()
	for {
		changed := s.cluster.Changed()
		if addr, self, ok := s.cluster.Leader(); ok && self {
			s.link.keep("")
		} else if ok {
			s.link.keep(addr)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// httpTimeout bounds what a forwarded HTTP request waits for an answer's header.
const httpTimeout = 30 * time.Second

// newHTTPTransport carries forwarded HTTP requests. It keeps no connection: they
// are few, and leaders change.
func newHTTPTransport(g *guard.Guard) *http.Transport {
	t := &http.Transport{DisableKeepAlives: true, ResponseHeaderTimeout: httpTimeout}
	if g.TLS != nil {
		t.DialTLSContext = g.TLS.DialContext(guard.Party{Role: guard.Lighthouse}, httpTimeout)
	}
	return t
}
