package store_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skerry-ft/skerry/store"
)

func TestDialWaitsForServer(t *testing.T) {
	t.Parallel()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := free.Addr().String()
	free.Close()
	tried := make(chan struct{}, 1)
	cfg := store.ClientConfig{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		nc, err := new(net.Dialer).DialContext(ctx, network, address)
		select {
		case tried <- struct{}{}:
		default:
		}
		return nc, err
	}}
	dialed := make(chan error, 1)
	go func() {
		c, err := store.Dial(within(t), addr, cfg)
		if err == nil {
			err = c.Close()
		}
		dialed <- err
	}()
	<-tried // in vain
	serve(t, store.ServerConfig{Listen: addr})
	if err := <-dialed; err != nil {
		t.Fatal(err)
	}
}

func TestDialGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, dialGivesUp)
}

func dialGivesUp(t *testing.T) {
	const addr = "127.0.0.1:1"
	refused := func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	_, err := store.Dial(t.Context(), addr, store.ClientConfig{Timeout: 20 * time.Millisecond, Dial: refused})
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatalf("got %v, want a timeout that says why the last try did not work", err)
	}
	ctx, cancel := context.WithCancelCause(within(t))
	why := errors.New("changed my mind")
	cancel(why)
	if _, err = store.Dial(ctx, addr, store.ClientConfig{}); !errors.Is(err, why) {
		t.Fatalf("got %v, want %v", err, why)
	}
}

// lateContext ends a moment after its deadline, as those do whose timer is not through yet.
type lateContext struct {
	context.Context
	deadline time.Time
}

func (c lateContext) Deadline() (time.Time, bool) { return c.deadline, true }

// A call that runs out of time while it dials says so, even if the dialer sees it before the
// context does: it does not say that the server is gone.
func TestCallEndsWhileItDials(t *testing.T) {
	t.Parallel()
	s := serve(t, store.ServerConfig{})
	var first net.Conn
	c, err := store.Dial(within(t), s.Addr(), store.ClientConfig{Dial: func(ctx context.Context, network, address string) (nc net.Conn, err error) {
		if first == nil {
			first, err = new(net.Dialer).DialContext(ctx, network, address)
			return first, err
		}
		deadline, _ := ctx.Deadline()
		<-time.After(time.Until(deadline))
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Check(within(t), "k"); !errors.Is(err, store.ErrClosed) {
		t.Fatalf("over a connection that is closed: %v, want %v", err, store.ErrClosed)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Millisecond)
	defer cancel()
	_, err = c.Check(lateContext{ctx, time.Now().Add(20 * time.Millisecond)}, "k") // dials
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, store.ErrClosed) {
		t.Errorf("got %v, want a deadline", err)
	}
}

func TestWaitForWorkers(t *testing.T) {
	t.Parallel()
	s := serve(t, store.ServerConfig{})
	const world = 3
	all := make(chan error, world)
	for range world {
		go func() {
			c, err := store.Dial(within(t), s.Addr(), store.ClientConfig{WorldSize: world, WaitForWorkers: true})
			if err == nil {
				err = c.Close()
			}
			all <- err
		}()
	}
	for range world {
		if err := <-all; err != nil {
			t.Fatal(err)
		}
	}
	_, err := store.Dial(t.Context(), s.Addr(), store.ClientConfig{
		WorldSize: 9, WaitForWorkers: true, Timeout: 4 * time.Second, // the first count must get through
	})
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "4 of 9 workers") {
		t.Fatalf("got %v, want a timeout that counts the workers", err)
	}
}

// The default timeout is 300 s, SetTimeout changes it, and a server that hangs
// does not hold a call longer. The time is the bubble's.
func TestDefaultTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := store.NewHash()
		defer h.Close()
		start := time.Now()
		check := func(want time.Duration, err error) {
			t.Helper()
			if got := time.Since(start); got != want || !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("got %v after %v, want a timeout after %v", err, got, want)
			}
			start = time.Now()
		}
		check(300*time.Second, h.Wait(context.Background(), "k"))
		h.SetTimeout(7 * time.Second)
		_, err := h.Get(context.Background(), "k")
		check(7*time.Second, err)
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		check(time.Hour, h.Wait(ctx, "k"))
	})
}

// script is a server that a test plays by hand over a pipe.
func script(t *testing.T, play func(nc net.Conn)) store.ClientConfig {
	t.Helper()
	return store.ClientConfig{Dial: func(context.Context, string, string) (net.Conn, error) {
		theirs, ours := net.Pipe()
		go func() {
			defer theirs.Close()
			hello := make([]byte, 5+5)
			if _, err := io.ReadFull(theirs, hello); err != nil {
				return
			}
			theirs.Write(hello[6:])
			play(theirs)
		}()
		return ours, nil
	}}
}

// A timed-out wait sends CANCEL_WAIT and reads both answers that may cross;
// the connection then serves the next call.
func TestCancelCrosses(t *testing.T) {
	for _, answer := range [][]byte{{1}, {0, 1}} {
		synctest.Test(t, func(t *testing.T) {
			waitForK := append([]byte{6, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0}, "/k"...)
			next := append([]byte{8, 2, 0, 0, 0, 0, 0, 0, 0}, "/d"...)
			cfg := script(t, func(nc net.Conn) {
				got := make([]byte, len(waitForK)+1)
				if _, err := io.ReadFull(nc, got); err != nil || !bytes.Equal(got, append(waitForK, 12)) {
					t.Errorf("got % x, %v, want WAIT and CANCEL_WAIT", got, err)
				}
				nc.Write(answer)
				got = make([]byte, len(next))
				if _, err := io.ReadFull(nc, got); err != nil || !bytes.Equal(got, next) {
					t.Errorf("got % x, %v, want DELETE_KEY", got, err)
				}
				nc.Write([]byte{1, 0, 0, 0, 0, 0, 0, 0})
			})
			c, err := store.Dial(t.Context(), "pipe", cfg)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			start := time.Now()
			if err := c.Wait(ctx, "k"); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Minute {
				t.Fatalf("got %v after %v, want a timeout after a minute", err, time.Since(start))
			}
			if ok, err := c.Delete(t.Context(), "d"); err != nil || !ok {
				t.Fatalf("on the same connection: got %t, %v", ok, err)
			}
			c.Close()
		})
	}
}

// A server that has stopped answering does not hold a call that was cancelled.
func TestSilentServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := store.Dial(t.Context(), "pipe", script(t, func(nc net.Conn) { io.Copy(io.Discard, nc) }))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetTimeout(time.Second)
		for _, call := range []struct {
			what string
			do   func() error
			most time.Duration // the timeout, and the time to clear up
		}{
			{"set", func() error { return c.Set(context.Background(), "k", nil) }, time.Second},
			{"wait", func() error { return c.Wait(context.Background(), "k") }, 1250 * time.Millisecond},
			{"pop", func() error { _, err := c.Pop(context.Background(), "k", true); return err }, 3 * time.Second},
		} {
			start := time.Now()
			err := call.do()
			if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took > call.most {
				t.Errorf("%s: got %v after %v, want a timeout within %v", call.what, err, took, call.most)
			}
		}
	})
}

// Answers over the bounds, and answers that make no sense, are refused.
func TestHostileServer(t *testing.T) {
	for what, c := range map[string]struct {
		answer []byte
		call   func(c *store.Client) error
	}{
		"a value over the bound": {[]byte{1, 0, 128, 0, 0, 0, 0, 0}, func(c *store.Client) error {
			_, err := c.Get(context.Background(), "k")
			return err
		}},
		"an unknown answer to wait": {[]byte{9}, func(c *store.Client) error { return c.Wait(context.Background(), "k") }},
		"a wrong echo":              {[]byte{1, 2, 3, 4}, func(c *store.Client) error { return c.Set(context.Background(), "k", nil) }},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			cfg := script(t, func(nc net.Conn) {
				nc.Read(make([]byte, 64))
				nc.Write(c.answer)
				io.Copy(io.Discard, nc)
			})
			cfg.Timeout = limit
			client, err := store.Dial(within(t), "pipe", cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			if err := c.call(client); err == nil || errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("got %v, want a refusal", err)
			}
		})
	}
}

// Blocked calls may take all connections but one.
func TestPoolKeepsOneConnection(t *testing.T) {
	t.Parallel()
	s := serve(t, store.ServerConfig{})
	c := dial(t, s, store.ClientConfig{MaxConns: 3})
	ctx := within(t)
	const blocked = 6
	all := make(chan error, blocked)
	for range blocked {
		go func() { _, err := c.Get(ctx, "later"); all <- err }()
	}
	for range 20 {
		if err := c.Set(ctx, "k", nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Set(ctx, "later", []byte("x")); err != nil {
		t.Fatal(err)
	}
	for range blocked {
		if err := <-all; err != nil {
			t.Fatal(err)
		}
	}
}

func TestDialRefusesOtherServers(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			nc.Read(make([]byte, 64))
			io.WriteString(nc, "HTTP/1.1 400 Bad Request\r\n")
			nc.Close()
		}
	}()
	if c, err := store.Dial(within(t), ln.Addr().String(), store.ClientConfig{}); err == nil {
		c.Close()
		t.Fatal("an HTTP server was taken for a store")
	} else if errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v, want it refused by what it says", err)
	}
}
