package session

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/connectivity"
)

// hungAddress is that of a server that is stopped: its system takes connections, and
// nothing is ever said on them.
func hungAddress(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln.Addr().String()
}

// A server that hangs, or refuses, does not keep a session from the next one,
// however long it may take; but it is the one that is given if there is no other.
func TestSessionDialsBeside(t *testing.T) {
	t.Parallel()
	good := serveScript(t, answers(5))
	for _, c := range []struct {
		name  string
		queue []string
		want  int
		state connectivity.State
	}{
		{"hung, good", []string{hungAddress(t), good}, 1, connectivity.Ready},
		{"refused, good", []string{deadAddress(t), good}, 1, connectivity.Ready},
		{"good, hung", []string{good, hungAddress(t)}, 0, connectivity.Ready},
		{"refused alone", []string{deadAddress(t)}, 0, connectivity.TransientFailure},
		{"both refused", []string{deadAddress(t), deadAddress(t)}, 0, connectivity.TransientFailure},
	} {
		s, _ := runSession(t, func(c *Config) { c.DialTimeout = time.Hour }, good)
		s.mu.Lock()
		s.mu.servers.rounds = maxDoublings + 8 // as much patience as there is
		s.mu.Unlock()
		got := s.dialFirst(limited(t), c.queue)
		if got.err != nil || got.at != c.want || got.conn.GetState() != c.state {
			t.Errorf("%s: %+v, want the one at %d, %v", c.name, got, c.want, c.state)
		}
		if got.conn != nil {
			got.conn.Close() //nolint:errcheck // a test's
		}
	}
}

// A session that ends while it dials leaves nothing behind.
func TestContactEnds(t *testing.T) {
	t.Parallel()
	s, _ := runSession(t, func(c *Config) { c.DialTimeout = time.Hour }, serveScript(t, answers(5)))
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if c := s.dialFirst(ctx, []string{hungAddress(t), hungAddress(t)}); c.err == nil {
			t.Errorf("%+v, want an error", c)
		}
	})
	time.AfterFunc(2*attemptDelay, cancel)
	wg.Wait()
}
