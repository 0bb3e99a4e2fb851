// Package link is a server's connection to the leader, while another server leads: for calls and
// sessions that it passes on, and for HTTP requests.
package link

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/lighthouse/cluster"
	"github.com/skerry-ft/skerry/lighthouse/internal/network"
)

// Link is the connection to the leader. It is safe for concurrent use.
type Link struct {
	network network.Network
	guard   *guard.Guard

	mu     sync.Mutex
	addr   string
	conn   *grpc.ClientConn
	closed bool
}

// errClosed says that this server stops.
var errClosed = errors.New("this lighthouse stops")

// New makes one over n that speaks as g does. It dials nothing.
func New(n network.Network, g *guard.Guard) *Link { return &Link{network: n, guard: g} }

// To returns the connection to the leader at addr. One to another address is
// closed, which ends every call on it: that one no longer leads.
func (l *Link) To(addr string) (*grpc.ClientConn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return nil, errClosed
	case l.conn != nil && l.addr == addr:
		return l.conn, nil
	}
	l.cutLocked()
	conn, err := cluster.Dial(l.network, l.guard, addr)
	if err != nil {
		return nil, err
	}
	l.addr, l.conn = addr, conn
	return conn, nil
}

// Keep cuts the connection unless it goes to addr.
func (l *Link) Keep(addr string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.addr != addr {
		l.cutLocked()
	}
}

// Broken cuts a connection on which a call failed, so that the next is made
// anew, without the old one's backoff.
func (l *Link) Broken(conn *grpc.ClientConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn == conn {
		l.cutLocked()
	}
}

// Close cuts the connection, and there is no other.
func (l *Link) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.cutLocked()
}

func (l *Link) cutLocked() {
	if l.conn != nil {
		_ = l.conn.Close() // calls on it end, and are made again
	}
	l.conn, l.addr = nil, ""
}

// httpTimeout bounds what a forwarded HTTP request waits for an answer's header.
const httpTimeout = 30 * time.Second

// Transport carries forwarded HTTP requests over n. It keeps no connection: they
// are few, and leaders change.
func Transport(n network.Network, g *guard.Guard) *http.Transport {
	dial := func(ctx context.Context, _, address string) (net.Conn, error) { return n.Dial(ctx, address) }
	t := &http.Transport{DialContext: dial, DisableKeepAlives: true, ResponseHeaderTimeout: httpTimeout}
	if g.TLS != nil {
		t.DialTLSContext = g.TLS.DialOver(dial, guard.Party{Role: guard.Lighthouse}, httpTimeout)
	}
	return t
}
