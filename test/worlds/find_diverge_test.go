package worlds

import (
	"context"
	"testing"
	"time"
)

// A donor's ShouldCommit ends by its ctx while the copy of its state is made: the
// step was committed, so position and parameters must say so.
func TestWorldCommitThenCtxEnds(t *testing.T) {
	t.Parallel()
	inWorld(t, usual(), func(w *world) {
		a := w.replica("a", 0, 1, quick()).start()
		joining := false
		m := quick()
		m.staging = 5 * time.Second
		m.ctxFor = func(ctx context.Context, p *proc, c call) (context.Context, context.CancelFunc) {
			if c == callCommit && joining {
				return context.WithTimeout(ctx, 1500*time.Millisecond)
			}
			return ctx, func() {}
		}
		b := w.replica("b", 1, 1, m).start()
		w.reach(20, 30*time.Second, a, b)
		joining = true
		c := w.replica("c", 2, 1, quick()).start()
		time.Sleep(10 * time.Second)
		at := a.ranks[0].atStep()
		w.reach(at+20, 20*time.Second, a, b, c)
	})
}

// A state of step 0 that was fetched for one quorum is not loaded in another.
func TestWorldStateOfStepZeroIsNotReused(t *testing.T) {
	t.Parallel()
	inWorld(t, usual(), func(w *world) {
		m := quick()
		failed := false
		m.at = func(ctx context.Context, p *proc, s stage) {
			switch {
			case s == stageBallot && !failed:
				failed = true
				w.book.fault(p.name, "reports an error")
				p.m.ReportError(errEnded)
			case s == stageEnded && p.m.Step() == 0:
				_ = wait(ctx, 5*time.Second)
			}
		}
		a := w.replica("a", 0, 1, quick()).start()
		z := w.replica("z", 1, 1, m).start()
		w.within(10*time.Second, "the first step is discarded", func() bool { return z.ranks[0].m.Stats().Discards > 0 })
		time.Sleep(time.Second)
		a.kill()
		first := w.replica("0", 2, 1, quick()).start()
		w.reach(20, 60*time.Second, first, z)
	})
}

// A StartQuorum that is called again after it timed out still waits for the heal.
func TestWorldStartQuorumAgainAfterATimeout(t *testing.T) {
	t.Parallel()
	o := usual()
	o.rules.MinReplicas = 2
	inWorld(t, o, func(w *world) {
		m := quick()
		starts := 0
		m.ctxFor = func(ctx context.Context, p *proc, c call) (context.Context, context.CancelFunc) {
			if starts++; c == callStart && starts == 1 {
				return context.WithTimeout(ctx, 300*time.Millisecond)
			}
			return ctx, func() {}
		}
		z := w.replica("z", 1, 1, m).start()
		time.Sleep(time.Second)
		a := w.replica("a", 0, 1, quick()).start()
		w.reach(20, 30*time.Second, a, z)
	})
}
