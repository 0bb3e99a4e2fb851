package worlds

import (
	"context"
	"sync/atomic"
	"testing"
	"time"
)

// Nothing presses behind an operator's drain: until the others can do without it, the
// replica trains and serves. (A deadline, which a SIGTERM's has, ended healthy jobs here.)

// The lighthouse goes away after the order, and nobody could form the next quorum.
func TestWorldOperatorDrainsBeforeTheLighthouseIsAway(t *testing.T) {
	t.Parallel()
	inWorld(t, usual(), func(w *world) {
		m := quick()
		m.forward = time.Second
		job := w.replicas(3, m)
		w.reach(3, 30*time.Second, job...)
		time.Sleep(200 * time.Millisecond)
		w.orderDrain(job[2])
		time.Sleep(50 * time.Millisecond)
		if job[2].over() {
			t.Fatal("the test is too late")
		}
		w.book.watch()
		w.restartHouse(40*time.Second, false)
		if gap := w.book.longest(); gap > 15*time.Second {
			t.Errorf("the healthy job stood for %v", gap)
		}
		w.within(30*time.Second, "c is drained", job[2].over)
	})
}

// Without it the others are too few; its replacement comes later.
func TestWorldOperatorDrainsBelowMinReplicas(t *testing.T) {
	t.Parallel()
	o := usual()
	o.rules.MinReplicas = 2
	inWorld(t, o, func(w *world) {
		job := w.replicas(2, quick())
		w.reach(3, 30*time.Second, job...)
		w.orderDrain(job[1])
		w.book.watch()
		time.Sleep(40 * time.Second)
		if gap := w.book.longest(); gap > 15*time.Second {
			t.Errorf("the healthy job stood for %v", gap)
		}
		c := w.replica("c", 2, 1, quick()).start()
		w.within(30*time.Second, "b is drained", job[1].over)
		w.reach(job[0].ranks[0].m.Step()+5, 30*time.Second, job[0], c)
	})
}

// It holds the only state, and a newcomer copies from it for longer than any timeout.
func TestWorldOperatorDrainsTheOnlyHolderThatIsCopiedFrom(t *testing.T) {
	t.Parallel()
	inWorld(t, usual(), func(w *world) {
		a := w.replica("a", 0, 1, quick()).start()
		w.reach(20, 20*time.Second, a)
		var first atomic.Int64
		slow := quick()
		slow.heals = 30 * time.Second
		slow.at = func(_ context.Context, p *proc, s stage) {
			if s == stageEnded && p.atStep() > 0 {
				first.CompareAndSwap(0, p.atStep())
			}
		}
		w.replica("b", 1, 1, slow).start()
		time.Sleep(2 * time.Second)
		at := a.ranks[0].atStep()
		w.orderDrain(a)
		w.within(2*time.Minute, "a is drained", a.over)
		w.within(2*time.Minute, "b commits", func() bool { return first.Load() > 0 })
		if first.Load() < at {
			t.Errorf("b began at step %d: the %d steps of the job are lost", first.Load(), at)
		}
	})
}

// Steps are longer than StepTimeout, as they may be while a quorum stands.
func TestWorldOperatorDrainsInLongSteps(t *testing.T) {
	t.Parallel()
	inWorld(t, usual(), func(w *world) {
		m := quick()
		m.forward = 15 * time.Second
		job := w.replicas(3, m)
		w.reach(3, 5*time.Minute, job...)
		time.Sleep(time.Second)
		a := job[0].ranks[0]
		before := a.m.Stats().Discards
		w.orderDrain(job[2])
		w.within(2*time.Minute, "c is drained", job[2].over)
		w.reach(a.m.Step()+2, 3*time.Minute, job[:2]...)
		if n := a.m.Stats().Discards - before; n > 0 || before > 0 {
			t.Errorf("%d steps were discarded for a drain, %d before it; want none", n, before)
		}
	})
}

// The only other one evaluates, away from a quorum that fell meanwhile; it comes back.
func TestWorldOperatorDrainsBesideOneThatIsAway(t *testing.T) {
	t.Parallel()
	inWorld(t, usual(), func(w *world) {
		a := w.replica("a", 0, 1, quick()).start()
		var first atomic.Int64
		evaluates := quick()
		evaluates.at = func(ctx context.Context, p *proc, s stage) {
			switch {
			case s == stagePause && p.atStep() == 50:
				p.slow(true)
				_ = wait(ctx, 60*time.Second) // its own ctx ends with the world
			case s == stageEnded && p.atStep() > 50:
				first.CompareAndSwap(0, p.atStep())
			}
		}
		b := w.replica("b", 1, 1, evaluates).start()
		w.reach(50, 30*time.Second, a, b)
		w.reach(200, 50*time.Second, a)
		at := a.ranks[0].atStep()
		w.orderDrain(a)
		w.within(3*time.Minute, "a is drained", a.over)
		w.within(2*time.Minute, "b commits", func() bool { return first.Load() > 0 })
		if first.Load() < at {
			t.Errorf("b goes on at step %d, and %d steps of the job are lost", first.Load(), at-first.Load())
		}
	})
}
