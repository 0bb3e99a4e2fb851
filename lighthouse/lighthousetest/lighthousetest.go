// Package lighthousetest runs a lighthouse server inside a test.
//
//	l := lighthousetest.Start(t, func(c *lighthouse.Config) { c.Rules.MinReplicas = 2 })
//	cfg.Lighthouse = []string{l.Addr}
//
// The server listens on a free loopback port, keeps its ledger in memory unless
// the test sets DataDir, logs to the test, and is stopped when the test ends.
package lighthousetest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/lighthouse"
)

// Server is a running server. Its methods are safe for concurrent use.
type Server struct {
	// Lighthouse is the server itself, for its Status.
	Lighthouse *lighthouse.Server
	// Addr is where it listens, host:port.
	Addr string

	stop context.CancelFunc
	done chan struct{}
	err  error       // of Run; read after done
	told atomic.Bool // somebody knows err
}

// Start runs a server with the default configuration, as change (which may be
// nil) alters it. It fails the test if the server does not start, or does not
// stop cleanly in the end.
func Start(t testing.TB, change func(*lighthouse.Config)) *Server {
	t.Helper()
	cfg := defaults(t)
	if change != nil {
		change(&cfg)
	}
	return start(t, cfg)
}

// defaults is a configuration for a test.
func defaults(t testing.TB) lighthouse.Config {
	cfg := lighthouse.DefaultConfig()
	cfg.Listen = "127.0.0.1:0"
	log := &testLog{t: t}
	t.Cleanup(log.end)
	cfg.Log = zerolog.New(log).Level(zerolog.InfoLevel)
	return cfg
}

// start runs a server until the test ends. What it ends with fails the test,
// unless somebody has been told by Stop.
func start(t testing.TB, cfg lighthouse.Config) *Server {
	t.Helper()
	s, err := launch(cfg)
	for began := time.Now(); err != nil && strings.Contains(err.Error(), "is in use: stop") && time.Since(began) < patience; {
		<-time.After(10 * time.Millisecond) // somebody's connection has the port of a server that starts again
		s, err = launch(cfg)
	}
	if err != nil {
		t.Fatalf("start a lighthouse: %v", err)
	}
	t.Cleanup(func() {
		if s.told.Load() {
			return
		}
		if err := s.Stop(); err != nil {
			t.Errorf("stop the lighthouse: %v", err)
		}
	})
	return s
}

func launch(cfg lighthouse.Config) (*Server, error) {
	server, err := lighthouse.New(cfg)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &Server{Lighthouse: server, Addr: server.Addr().String(), stop: stop, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		s.err = server.Run(ctx)
	}()
	return s, nil
}

// Done is closed when the server has ended, by Stop or by itself.
func (s *Server) Done() <-chan struct{} { return s.done }

// Stop stops the server as SIGTERM would, waits, and returns what Run did.
// Later calls return the same.
func (s *Server) Stop() error {
	s.stop()
	<-s.done
	s.told.Store(true)
	return s.err
}

// URL is an address of the server's HTTP side.
func (s *Server) URL(path string) string { return fmt.Sprintf("http://%s%s", s.Addr, path) }

// testLog writes to the test's log until the test ends: a server that fails to
// stop must not make the next test panic.
type testLog struct {
	t testing.TB

	mu    sync.Mutex
	ended bool
}

// Write logs one line.
func (l *testLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.t.Logf("%s", p[:max(len(p)-1, 0)])
	}
	return len(p), nil
}

func (l *testLog) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
}
