package web

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/lighthouse/api"
	"github.com/skerry-ft/skerry/quorum"
)

// fakeBackend leads, and tells without end.
type fakeBackend struct{ Backend }

func (fakeBackend) Route(context.Context, bool) (string, error)       { return "", nil }
func (fakeBackend) Known(_ context.Context, job string) (bool, error) { return job == "default", nil }
func (fakeBackend) Newest() (map[string]int64, error) {
	return map[string]int64{"default": 1 << 40}, nil
}
func (fakeBackend) Told() <-chan struct{}                                        { return nil }
func (fakeBackend) Healthy() bool                                                { return true }
func (fakeBackend) Drain(context.Context, string, quorum.ReplicaID, Order) error { return nil }

func (fakeBackend) Events(job string, since int64, limit int) ([]api.Event, error) {
	all := make([]api.Event, limit)
	for i := range all {
		all[i] = api.Event{Job: job, Seq: since + int64(i) + 1, Kind: "formed", Text: strings.Repeat("x", 100)}
	}
	return all, nil
}

func newFake(t *testing.T) *Server {
	t.Helper()
	g, err := guard.Open(guard.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return New(Config{
		Guard: g, Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}, Names: func() []string { return []string{"localhost"} },
		Metrics: http.NotFoundHandler(), HelloTimeout: time.Second, Sampled: zerolog.Nop(),
	}, fakeBackend{})
}

// oneConn is a listener of one connection.
type oneConn struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l oneConn) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l oneConn) Close() error   { close(l.closed); return nil }
func (l oneConn) Addr() net.Addr { return &net.TCPAddr{} }

// TestSlowReadersAreCut: who takes nothing of a stream is cut after a while, and gives its
// place back; who reads may do so for longer than a plain request may take.
func TestSlowReadersAreCut(t *testing.T) {
	for name, patience := range map[string]struct {
		reads bool
		cut   bool
	}{"reads nothing": {false, true}, "reads, for longer than any request may take": {true, false}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newFake(t)
				server := s.HTTP()
				l := oneConn{make(chan net.Conn, 1), make(chan struct{})}
				served := make(chan error, 1)
				go func() { served <- server.Serve(l) }()
				client, conn := net.Pipe()
				l.conns <- conn
				if _, err := io.WriteString(client, "GET /api/v1/events?follow=1 HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
					t.Fatal(err)
				}
				end := time.Now().Add(2 * writeTimeout)
				buffer := make([]byte, 64<<10)
				for patience.reads && time.Now().Before(end) {
					if _, err := client.Read(buffer); err != nil {
						t.Fatalf("cut after %v: %v", 2*writeTimeout-time.Until(end), err)
					}
					<-time.After(writePatience / 100)
				}
				if !patience.reads {
					<-time.After(2 * writePatience)
				}
				synctest.Wait()
				if n := s.streams.Taken(); (n == 0) != patience.cut {
					t.Errorf("%d streams are open, want it cut: %v", n, patience.cut)
				}
				_ = client.Close() // the test is over
				if err := server.Shutdown(t.Context()); err != nil {
					t.Error(err)
				}
				s.Wait()
				if err := <-served; !errors.Is(err, http.ErrServerClosed) {
					t.Error(err)
				}
			})
		})
	}
}

// TestStreamsOfAHostAreBounded: one host does not take the places of others.
func TestStreamsOfAHostAreBounded(t *testing.T) {
	t.Parallel()
	s := newFake(t)
	enter := func(addr string) error {
		r := httptest.NewRequest("GET", "/api/v1/stream", nil)
		r.RemoteAddr = addr
		_, err := s.enterStream(httptest.NewRecorder(), r)
		return err
	}
	for i := range 200 {
		err := enter("192.0.2.7:5")
		if f, refused := errors.AsType[failure](err); refused != (i >= 128) || refused && f.status != http.StatusServiceUnavailable {
			t.Fatalf("stream %d of a host: %v", i, err)
		}
	}
	if err := enter("192.0.2.8:5"); err != nil {
		t.Errorf("another host: %v", err)
	}
}
