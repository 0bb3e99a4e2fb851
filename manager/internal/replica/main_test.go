package replica

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// limited is a ctx that ends long after the test should have.
func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	t.Cleanup(cancel)
	return ctx
}

// complete is completeLocked for a test that does not hold the lock.
func complete(s *server) []*pendingReport {
	s.mu.Lock()
	defer s.mu.Unlock()
	all, _ := s.completeLocked()
	return all
}
