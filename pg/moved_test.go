package pg

import (
	"context"
	"errors"
	"testing"
)

// still is a backend whose ops are done at once.
type still struct{ Backend }

func (still) Configure(context.Context, Config) error { return nil }

func (still) Submit(op *Op) *Work { return Finished(op, nil) }

func (still) Err() error { return nil }

// A group that is configured anew while a composed verb runs: before its first op the verb
// begins anew, after it the verb ends.
func TestComposedVerbOfAGroupThatMoves(t *testing.T) {
	t.Parallel()
	g := NewGroup(still{})
	configure := func(id int64) {
		if err := g.Configure(t.Context(), Config{QuorumID: id, ReplicaIDs: []string{"a", "b"}[:id%2+1]}); err != nil {
			t.Fatal(err)
		}
	}
	configure(1)
	var sizes []int
	err := g.Compose(t.Context(), func(c *Composed) error {
		sizes = append(sizes, c.Size())
		if len(sizes) == 1 {
			configure(2)
		}
		return c.Do(t.Context(), &Op{Kind: KindBarrier})
	})
	if err != nil || len(sizes) != 2 || sizes[0] != 2 || sizes[1] != 1 {
		t.Errorf("before the first op: %v, sizes %v; want it begun anew with size 1 instead of 2", err, sizes)
	}
	runs := 0
	err = g.Compose(t.Context(), func(c *Composed) error {
		runs++
		if err := c.Do(t.Context(), &Op{Kind: KindBarrier}); err != nil {
			return err
		}
		configure(3)
		return c.Do(t.Context(), &Op{Kind: KindBarrier})
	})
	if !errors.Is(err, ErrAborted) || runs != 1 {
		t.Errorf("after the first op: %v in %d runs, want ErrAborted in one", err, runs)
	}
}
