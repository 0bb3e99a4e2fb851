package manager

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/skerry-ft/skerry/pg"
)

// helped counts how often a goroutine that waits for a ballot lends itself.
type helped struct {
	pg.Backend

	times atomic.Int64
}

func (h *helped) Unwrap() pg.Backend { return h.Backend }

func (h *helped) SetRound(round int64) { h.Backend.(pg.Rounder).SetRound(round) }

func (h *helped) Submit(op *pg.Op) *pg.Work {
	w := h.Backend.Submit(op)
	if op.Kind == pg.KindBallot {
		w.SetHelper(h)
	}
	return w
}

// Help implements pg.Helper.
func (h *helped) Help(context.Context, *pg.Work) { h.times.Add(1) }

// Who waits for a ballot brings it forward: with peers of one host, whose frames
// lie in shared memory, that saves waking another goroutine, at every step.
func TestBallotIsHelped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		mem := w.net.Backend()
		h := &helped{Backend: mem}
		a, b := w.trainerOn("a", mem, h), w.trainer("b")
		a.start(3)
		b.start(3)
		w.reaches(3, a, b)
		if n := h.times.Load(); n < 3 {
			t.Errorf("%d ballots were helped, want 3", n)
		}
	})
}
