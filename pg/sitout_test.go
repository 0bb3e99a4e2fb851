package pg

import (
	"context"
	"errors"
	"testing"
	"time"
)

// lonely is a backend whose split never comes about.
type lonely struct{ Backend }

func (lonely) Split([]int) (Backend, error) { return nil, ErrUnsupported }

func (lonely) SitOut(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// Who sits out of a subgroup waits no longer than its members do.
func TestSitOutIsBounded(t *testing.T) {
	t.Parallel()
	err := NewGroup(lonely{}).sitOut(t.Context(), GroupOptions{Timeout: time.Millisecond})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("sitting out: %v, want the subgroup's timeout to pass", err)
	}
}
