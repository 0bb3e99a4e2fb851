package lighthouse

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/wire"
)

// link is this server's connection to the leader, while another server leads. It
// is safe for concurrent use.
type link struct {
	dial func(addr string) (*grpc.ClientConn, error)

	mu     sync.Mutex
	addr   string
	conn   *grpc.ClientConn
	closed bool
}

// errLinkClosed says that this server stops.
var errLinkClosed = errors.New("this lighthouse stops")

func newLink(g *guard.Guard, creds credentials.TransportCredentials) *link {
	return &link{dial: func(addr string) (*grpc.ClientConn, error) {
		options := append(wire.DialOptions(), g.DialOptions(fellow(), "")...)
		if creds != nil {
			options = append(options, grpc.WithTransportCredentials(creds))
		}
		return grpc.NewClient("passthrough:///"+addr, options...)
	}}
}

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
	conn, err := l.dial(addr)
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
		changed := s.leaderChanged()
		if addr, self, ok := s.leader(); ok && self {
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
		t.DialTLSContext = g.TLS.DialContext(fellow(), httpTimeout)
	}
	return t
}
