package pg_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/skerry-ft/skerry/pg"
)

// TestStoreLost: the store is not accused of the caller's own end, but for what was found
// out before it.
func TestStoreLost(t *testing.T) {
	t.Parallel()
	calledOff, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("called off"))
	late, stop := context.WithTimeout(t.Context(), 0)
	defer stop()
	reset := errors.New("reset")
	for _, c := range []struct {
		name string
		ctx  context.Context
		err  error
		want bool
	}{
		{"no failure", t.Context(), nil, false},
		{"a failure", t.Context(), reset, true},
		{"a failure at the deadline", late, reset, true},
		{"called off", calledOff, reset, false},
		{"called off after it was out of reach", calledOff, fmt.Errorf("dial: %w", pg.ErrUnreachable), true},
	} {
		if got := pg.StoreLost(c.ctx, c.err); errors.Is(got, pg.ErrNoStore) != c.want {
			t.Errorf("%s: %v is ErrNoStore: %t, want %t", c.name, got, !c.want, c.want)
		}
	}
}
