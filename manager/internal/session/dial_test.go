package session

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/connectivity"
)

// A server that hangs, or refuses, does not keep a session from the next one,
// however long it may take; but it is the one that is given if there is no other.
func TestSessionDialsBeside(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNet(t)
		good := serveScript(n, answers(5))
		for _, c := range []struct {
			name  string
			queue []string
			want  int
			state connectivity.State
		}{
			{"hung, good", []string{n.hung(), good}, 1, connectivity.Ready},
			{"refused, good", []string{n.dead(), good}, 1, connectivity.Ready},
			{"good, hung", []string{good, n.hung()}, 0, connectivity.Ready},
			{"refused alone", []string{n.dead()}, 0, connectivity.TransientFailure},
			{"both refused", []string{n.dead(), n.dead()}, 0, connectivity.TransientFailure},
		} {
			s, _ := runSession(n, func(c *Config) { c.DialTimeout = time.Hour }, good)
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
	})
}

// A session that ends while it dials leaves nothing behind.
func TestContactEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNet(t)
		s, _ := runSession(n, func(c *Config) { c.DialTimeout = time.Hour }, serveScript(n, answers(5)))
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if c := s.dialFirst(ctx, []string{n.hung(), n.hung()}); c.err == nil {
				t.Errorf("%+v, want an error", c)
			}
		})
		time.AfterFunc(2*attemptDelay, cancel)
		wg.Wait()
	})
}
