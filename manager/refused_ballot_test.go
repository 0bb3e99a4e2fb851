package manager

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/skerry-ft/skerry/pg"
)

// mutes is a backend that refuses ballots while it is told to, and gives no results
// with them, as one does that has no group, is closed, or carries no ballots.
type mutes struct {
	pg.Backend

	refuses atomic.Bool
	refused atomic.Int32
}

var errRefusesBallots = errors.New("this backend takes no ballot now")

func (b *mutes) Submit(op *pg.Op) *pg.Work {
	if op.Kind == pg.KindBallot && b.refuses.Swap(false) {
		b.refused.Add(1)
		b.Backend.Abort(b.epoch(), errRefusesBallots)
		return pg.Finished(op, errRefusesBallots)
	}
	return b.Backend.Submit(op)
}

func (b *mutes) epoch() pg.Epoch {
	c, _ := b.Backend.(interface{ Config() (pg.Config, bool) }).Config()
	return c.Epoch()
}

func (b *mutes) Unwrap() pg.Backend { return b.Backend }

// A rank whose ballot was refused by its backend has nobody's ballot but its own: it
// commits nothing by itself (C2), whichever replica rank it has. (Rank 0 took the list
// of one for all, and committed a step that the others had not promised.)
func TestRefusedBallotIsNoYes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		mem := w.net.Backend()
		outer := &mutes{Backend: mem}
		a, b := w.trainerOn("a", mem, outer), w.trainer("b")
		var at atomic.Int64 // the step that b's trainer reports an error of
		at.Store(-1)
		b.before = func(_ context.Context, step int64) error {
			if step == 5 && at.CompareAndSwap(-1, 5) {
				b.m.ReportError(errors.New("a NaN"))
				outer.refuses.Store(true)
			}
			return nil
		}
		a.start(1 << 40)
		b.start(1 << 40)
		w.reaches(10, a, b)
		w.agree(a, b)
		if outer.refused.Load() != 1 {
			t.Fatalf("%d ballots were refused, want 1", outer.refused.Load())
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		for _, e := range a.mu.events {
			if c, ok := e.(StepCommitted); ok && c.Step == 6 && c.QuorumID == firstQuorumOf(a.mu.events) {
				t.Errorf("a committed step 6 in quorum %d, of which b's ballot was not ok, and its own was not given", c.QuorumID)
			}
		}
	})
}

// firstQuorumOf is the quorum in which step 5 was committed.
func firstQuorumOf(events []Event) int64 {
	for _, e := range events {
		if c, ok := e.(StepCommitted); ok && c.Step == 5 {
			return c.QuorumID
		}
	}
	return 0
}
