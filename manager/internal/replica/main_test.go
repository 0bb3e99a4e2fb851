package replica

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait of the tests; reaching it is a failure.
const patience = 30 * time.Second

// limited is a ctx that ends long after the test should have.
func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for ctx := limited(t); !ok(); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// complete is completeLocked for a test that does not hold the lock.
func complete(s *server) []*pendingReport {
	s.mu.Lock()
	defer s.mu.Unlock()
	all, _ := s.completeLocked()
	return all
}
