package cluster

import (
	"net"
	"sync/atomic"
	"testing"
)

// doors hands out connections from made-up hosts.
type doors struct {
	net.Listener
	knocks chan net.Conn
}

func (d *doors) Accept() (net.Conn, error) {
	c, ok := <-d.knocks
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

type stranger struct {
	net.Conn
	from   string
	closed atomic.Bool
}

func (s *stranger) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(s.from), Port: 1} }
func (s *stranger) Close() error         { s.closed.Store(true); return nil }

// One host cannot shut raft's other servers out of its port.
func TestRaftPortIsBoundedPerHost(t *testing.T) {
	t.Parallel()
	d := &doors{knocks: make(chan net.Conn)}
	refused := make(chan error, 1)
	ln := limitRaft(d, func(_ net.Addr, err error) { refused <- err })
	accepted := make(chan net.Conn)
	go func() {
		defer close(accepted)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	enters := func(from string) (net.Conn, bool) {
		c := &stranger{from: from}
		d.knocks <- c
		select {
		case in := <-accepted:
			return in, true
		case <-refused:
			return nil, !c.closed.Load()
		}
	}
	var last net.Conn
	for i := range maxRaftConnsPerHost {
		c, in := enters("10.0.0.1")
		if !in {
			t.Fatalf("connection %d of one host is refused, want %d", i+1, maxRaftConnsPerHost)
		}
		last = c
	}
	if _, in := enters("10.0.0.1"); in {
		t.Errorf("one host has more than %d connections", maxRaftConnsPerHost)
	}
	if _, in := enters("10.0.0.2"); !in {
		t.Error("another server is shut out")
	}
	if err := last.Close(); err != nil {
		t.Fatal(err)
	}
	if _, in := enters("10.0.0.1"); !in {
		t.Error("the place of a closed connection is not given back")
	}
	close(d.knocks)
	for range accepted {
		t.Error("accepted after the end")
	}
}
