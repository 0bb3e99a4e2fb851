package pg_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/managedtest"
	"github.com/skerry-ft/skerry/tensor"
)

// composedVerbs are the verbs of this package that are made of others, each with a check
// of what it gives at a participant, by its rank among size.
var composedVerbs = map[string]managedtest.Verb{
	"Compose": twice,
	"NewGroup": func(ctx context.Context, g *pg.Group, rank, size int) error {
		return newGroup(ctx, g, rank, size, pg.GroupOptions{})
	},
	"NewGroup local": func(ctx context.Context, g *pg.Group, rank, size int) error {
		if rank < 0 {
			return nil
		}
		return newGroup(ctx, g, rank, size, pg.GroupOptions{LocalSync: true})
	},
	"NewSubgroups": func(ctx context.Context, g *pg.Group, rank, size int) error {
		mine, all, err := g.NewSubgroups(ctx, 1, pg.GroupOptions{})
		if err != nil || len(all) != size || (mine == nil) != (rank < 0) {
			return fmt.Errorf("%d groups, mine %v, want %d: %w", len(all), mine, size, err)
		}
		return nil
	},
}

// twice is a verb made of two ops.
func twice(ctx context.Context, g *pg.Group, rank, size int) error {
	var c *pg.Composed
	var all []int64
	err := g.Compose(ctx, func(now *pg.Composed) error {
		c, all = now, make([]int64, now.Size())
		for range 2 {
			err := c.Do(ctx, &pg.Op{
				Kind: pg.KindAllGather, Flat: true,
				In: []tensor.Tensor{tensor.Of([]int64{int64(c.Rank())})}, Out: []tensor.Tensor{tensor.Of(all)},
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for r, from := range all {
		err = errors.Join(err, equal(int(from), r))
	}
	return errors.Join(err, equal(c.Rank(), rank), equal(c.Size(), size))
}

func equal(got, want int) error {
	if got != want {
		return fmt.Errorf("got %d, want %d", got, want)
	}
	return nil
}

func newGroup(ctx context.Context, g *pg.Group, rank, size int, o pg.GroupOptions) error {
	all, err := g.NewGroup(ctx, nil, o)
	if err != nil {
		return err
	}
	if rank < 0 {
		return nil
	}
	sum, err := sumOf(ctx, all, 1)
	return errors.Join(err, equal(int(sum), size), equal(all.Rank(), rank))
}

// Verbs made of others are laid out for those who take part when they run.
func TestComposedVerbsBeforeQuorum(t *testing.T) {
	t.Parallel()
	managedtest.BeforeQuorum(t, composedVerbs)
}

// A quorum may fall between a verb's look at it and its first op: the verb begins anew in
// the next one.
func TestComposedVerbsBeginAnew(t *testing.T) {
	t.Parallel()
	managedtest.BeginAnew(t, map[string]managedtest.Verb{"Compose": twice, "NewGroup": composedVerbs["NewGroup"]})
}

// A verb of which an op has run does not go on among others: the step is discarded.
func TestComposedVerbsDoNotGoOnAmongOthers(t *testing.T) {
	t.Parallel()
	w, managers := managedtest.FallingWorld(t, 2)
	errs := make(chan error, 2)
	for r, g := range w.Groups[:2] {
		go func() { errs <- twice(t.Context(), g, r, 2) }()
	}
	spare := make([]int64, 1) // the op below is over all members
	go func() {
		errs <- w.Groups[2].Do(t.Context(), &pg.Op{
			Kind: pg.KindAllGather, In: []tensor.Tensor{tensor.Of(spare)},
			Out: []tensor.Tensor{tensor.Of([]int64{0}), tensor.Of([]int64{0}), tensor.Of([]int64{0})},
		})
	}()
	failed := 0
	for range 3 {
		if err := <-errs; err != nil {
			failed++
			if !errors.Is(err, pg.ErrAborted) || !strings.Contains(err.Error(), "take part") {
				t.Errorf("verb whose quorum moved: %v, want ErrAborted that says so", err)
			}
		}
	}
	if failed != 2 || len(managers[0].Reported()) != 1 || len(managers[1].Reported()) != 1 {
		t.Errorf("%d failed, reported %v and %v; want both to report it", failed, managers[0].Reported(), managers[1].Reported())
	}
}

// What ends the wait for the quorum ends the verb with one clear error, and the step.
func TestComposedVerbsWithoutQuorum(t *testing.T) {
	t.Parallel()
	cause := errors.New("no patience")
	for name, c := range map[string]struct {
		end      func(m *managedtest.Manager, g *pg.Group, cancel context.CancelCauseFunc)
		want     error
		reported bool
	}{
		"unreachable": {func(m *managedtest.Manager, _ *pg.Group, _ context.CancelCauseFunc) { m.Settle(cause) }, cause, true},
		"canceled":    {func(_ *managedtest.Manager, _ *pg.Group, cancel context.CancelCauseFunc) { cancel(cause) }, cause, true},
		"closed":      {func(_ *managedtest.Manager, g *pg.Group, _ context.CancelCauseFunc) { _ = g.Close() }, pg.ErrClosed, false},
		"over":        {func(m *managedtest.Manager, _ *pg.Group, _ context.CancelCauseFunc) { m.Begin(); m.Settle(nil) }, pg.ErrAborted, false},
		"nobody": {func(m *managedtest.Manager, _ *pg.Group, _ context.CancelCauseFunc) {
			m.Choose()
			m.Settle(nil)
		}, pg.ErrNotParticipating, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, managers := managedtest.World(t, 1, 0)
				m, g := managers[0], w.Groups[0]
				m.Begin()
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				time.AfterFunc(time.Second, func() { c.end(m, g, cancel) }) // once the verb waits
				if err := twice(ctx, g, 0, 1); !errors.Is(err, c.want) {
					t.Errorf("%v, want %v", err, c.want)
				}
				if errs := m.Reported(); (len(errs) == 1) != c.reported || c.reported && !errors.Is(errs[0], c.want) {
					t.Errorf("reported %v, want it: %t", errs, c.reported)
				}
			})
		})
	}
}
