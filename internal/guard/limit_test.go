package guard_test

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/guard"
)

// fakeListener hands out connections from made-up addresses.
type fakeListener struct{ conns chan net.Conn }

func (l *fakeListener) Accept() (net.Conn, error) {
	c, ok := <-l.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (l *fakeListener) Close() error   { close(l.conns); return nil }
func (l *fakeListener) Addr() net.Addr { return &net.TCPAddr{} }

type fakeConn struct {
	net.Conn
	from   string
	closed atomic.Bool
}

func (c *fakeConn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(c.from), Port: 1} }
func (c *fakeConn) Close() error         { c.closed.Store(true); return nil }

func TestLimitConnections(t *testing.T) {
	t.Parallel()
	under := &fakeListener{conns: make(chan net.Conn, 1)}
	var refused []error
	ln := guard.Limit(under, guard.Limits{MaxConns: 4, MaxPerHost: 2, Refused: func(_ net.Addr, err error) { refused = append(refused, err) }})
	// knock says whether a connection from there is let in; one from a host
	// that has none yet follows it, so that Accept returns.
	accepted := make(chan net.Conn)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				close(accepted)
				return
			}
			accepted <- c
		}
	}()
	knock := func(from string) net.Conn {
		t.Helper()
		c := &fakeConn{from: from}
		under.conns <- c
		for deadline := time.After(patience); ; {
			select {
			case got := <-accepted:
				return got
			case <-deadline:
				t.Fatal("neither accepted nor refused")
			case <-time.After(time.Millisecond):
				if c.closed.Load() {
					return nil
				}
			}
		}
	}
	a1, a2 := knock("10.0.0.1"), knock("10.0.0.1")
	if a1 == nil || a2 == nil {
		t.Fatal("the first two of a host are refused")
	}
	if knock("10.0.0.1") != nil {
		t.Error("a third of one host is let in")
	}
	for range 2 {
		if knock("127.0.0.1") == nil {
			t.Error("loopback has the limit of a host")
		}
	}
	if knock("10.0.0.2") != nil {
		t.Error("a fifth is let in")
	}
	a1.Close()
	a1.Close() // the second one frees nothing
	if knock("10.0.0.1") == nil {
		t.Error("a place that was given back is not there")
	}
	if knock("2001:db8::1") != nil {
		t.Error("closing twice freed two places")
	}
	ln.Close()
	<-accepted
	for _, err := range refused {
		if !errors.Is(err, guard.ErrTooMany) {
			t.Errorf("refused with %v", err)
		}
	}
	if len(refused) != 3 {
		t.Errorf("%d refused, want 3", len(refused))
	}
}

// TestSlowReaderIsCut: a peer that takes nothing ends the write, one that
// takes it slowly does not.
func TestSlowReaderIsCut(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	limited := guard.Limit(ln, guard.Limits{WriteTimeout: 200 * time.Millisecond})
	defer limited.Close()
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := limited.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	// A deadline that the user sets later than the limit does not lift it.
	if err := server.SetWriteDeadline(time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := server.Write(make([]byte, 64<<20))
		done <- err
	}()
	select {
	case err := <-done:
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("got %v, want a deadline", err)
		}
	case <-time.After(patience):
		t.Fatal("the write never ended")
	}
	go func() { _, _ = io.Copy(io.Discard, client) }()
	if err := server.SetWriteDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the deadline that was set does not count: %v", err)
	}
}
