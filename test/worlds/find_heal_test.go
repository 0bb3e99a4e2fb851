package worlds

import (
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/testkit"
)

// Those who train go on while a newcomer copies the state; what they wait for is
// what has changed meanwhile, less their own computation: it heals beside its step.
func TestWorldHealDoesNotStopTheHealthy(t *testing.T) {
	t.Parallel()
	inWorld(t, usual(), func(w *world) {
		busy := quick()
		busy.forward = 500 * time.Millisecond
		all := w.replicas(2, busy)
		w.reach(20, 20*time.Second, all...)
		slow := busy
		slow.heals = time.Minute
		w.book.watch()
		c := w.replica("c", 2, 1, slow).start()
		w.within(2*slow.heals, "c takes part", func() bool { return c.ranks[0].first() > 0 })
		w.within(5*time.Second, "three take part", func() bool { return all[0].ranks[0].m.NumParticipants() == 3 })
		if gap, most := w.book.longest(), slow.heals/difference+250*time.Millisecond; gap > most {
			t.Errorf("the longest time between two steps is %v, want at most %v", gap, most)
		}
	})
}

// The same with two ranks each, of which the newcomer's are equally slow.
func TestWorldHealOfRanksDoesNotStopTheHealthy(t *testing.T) {
	testkit.Long(t)
	t.Parallel()
	inWorld(t, usual(), func(w *world) {
		a, b := w.replica("a", 0, 2, quick()).start(), w.replica("b", 1, 2, quick()).start()
		w.reach(20, 10*time.Second, a, b)
		slow := quick()
		slow.heals = time.Minute
		w.book.watch()
		c := w.replica("c", 2, 2, slow).start()
		w.within(2*slow.heals, "c takes part", func() bool { return c.ranks[0].first() > 0 })
		w.reach(a.ranks[0].atStep()+50, 20*time.Second, a, b, c)
		if gap, most := w.book.longest(), slow.heals/difference+250*time.Millisecond; gap > most {
			t.Errorf("the longest time between two steps is %v, want at most %v", gap, most)
		}
	})
}

// A member dies while a newcomer copies, and too few are left without it: it stops
// copying and joins.
func TestWorldCopyEndsWhenItIsNeeded(t *testing.T) {
	t.Parallel()
	o := usual()
	o.rules.MinReplicas = 2
	inWorld(t, o, func(w *world) {
		a, b := w.replica("a", 0, 1, quick()).start(), w.replica("b", 1, 1, quick()).start()
		w.reach(20, 10*time.Second, a, b)
		slow := quick()
		slow.heals = 5 * time.Minute
		c := w.replica("c", 2, 1, slow).start()
		time.Sleep(10 * time.Second)
		if n := c.ranks[0].m.Stats().Joins; n != 0 {
			t.Fatalf("c has joined %d times while it copies, want never", n)
		}
		b.kill()
		w.within(3*time.Second, "c joins", func() bool { return c.ranks[0].m.Stats().Joins > 0 })
		w.reach(a.ranks[0].atStep()+20, 6*time.Minute, a, c)
	})
}

// All die while a newcomer copies. It begins the job anew.
func TestWorldAllDieWhileANewcomerCopies(t *testing.T) {
	t.Parallel()
	inWorld(t, usual(), func(w *world) {
		a, b := w.replica("a", 0, 1, quick()).start(), w.replica("b", 1, 1, quick()).start()
		w.reach(20, 10*time.Second, a, b)
		slow := quick()
		slow.heals = time.Minute
		c := w.replica("c", 2, 1, slow).start()
		time.Sleep(10 * time.Second)
		a.kill()
		b.kill()
		w.reach(5, 90*time.Second, c)
	})
}

// A newcomer copies for longer than StuckAfter, until the quorum falls and too few are
// left without it. It joins then, and is no more stuck than any other joiner.
func TestWorldCopyLongerThanStuckAfterIsCutShort(t *testing.T) {
	t.Parallel()
	o := usual()
	o.rules.MinReplicas, o.rules.StuckAfter, o.rules.JoinTimeout = 2, 5*time.Second, 3*time.Second
	inWorld(t, o, func(w *world) {
		a, b := w.replica("a", 0, 1, quick()).start(), w.replica("b", 1, 1, quick()).start()
		w.reach(20, 10*time.Second, a, b)
		slow := quick()
		slow.heals = 20 * time.Second
		c := w.replica("c", 2, 1, slow).start()
		time.Sleep(10 * time.Second)
		b.kill()
		w.reach(a.ranks[0].atStep()+20, time.Minute, a, c)
	})
}
