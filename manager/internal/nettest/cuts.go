// Package nettest has a network for tests whose connections can be cut at any moment.
package nettest

import (
	"context"
	"errors"
	"net"
	"sync"
)

// Cuts is a network whose connections can be cut at any moment.
type Cuts struct {
	mu    sync.Mutex
	conns map[*cutConn]bool
	next  bool // the next bytes that arrive are lost with their connection
}

type cutConn struct {
	net.Conn

	cuts *Cuts
}

// New returns a network of TCP connections.
func New() *Cuts { return &Cuts{conns: make(map[*cutConn]bool)} }

// Listen implements manager.Network.
func (c *Cuts) Listen(address string) (net.Listener, error) { return net.Listen("tcp", address) }

// Dial implements manager.Network.
func (c *Cuts) Dial(ctx context.Context, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	own := &cutConn{Conn: conn, cuts: c}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conns[own] = true
	return own, nil
}

// Cut resets all connections.
func (c *Cuts) Cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn := range c.conns {
		conn.reset()
		delete(c.conns, conn)
	}
}

// CutAnswer loses the next bytes that arrive, and resets their connection.
func (c *Cuts) CutAnswer() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next = true
}

func (c *cutConn) reset() {
	_ = c.Conn.(*net.TCPConn).SetLinger(0) // a reset where it can be had
	_ = c.Close()
}

// Read implements net.Conn.
func (c *cutConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.cuts.mu.Lock()
	defer c.cuts.mu.Unlock()
	if err == nil && c.cuts.next {
		c.cuts.next = false
		c.reset()
		return 0, errors.New("connection reset by the test")
	}
	return n, err
}
