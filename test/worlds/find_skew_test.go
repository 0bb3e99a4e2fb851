package worlds

import (
	"testing"
	"time"
)

// skewed starts replicas of which the second takes long from one step to the next.
func (w *world) skewed(pauses ...time.Duration) []*replica {
	var all []*replica
	for i, pause := range pauses {
		m := quick()
		m.pause = pause
		all = append(all, w.replica(string(rune('a'+i)), i, 1, m).start())
	}
	return all
}

// Members reach StartQuorum over a heartbeat timeout apart: a joiner is let in
// nevertheless, within some steps.
func TestWorldJoinerOfASkewedJob(t *testing.T) {
	t.Parallel()
	inWorld(t, usual(), func(w *world) {
		all := w.skewed(10*time.Millisecond, 1500*time.Millisecond)
		w.reach(3, 20*time.Second, all...)
		c := w.replica("c", 2, 1, quick()).start()
		w.within(6*time.Second, "c takes part", func() bool { return c.ranks[0].first() > 0 })
		w.within(6*time.Second, "three take part", func() bool { return all[0].ranks[0].m.NumParticipants() == 3 })
	})
}

// As long as somebody waits to join, a step takes no longer.
func TestWorldSkewedJobIsNotSlowedByAJoiner(t *testing.T) {
	t.Parallel()
	inWorld(t, usual(), func(w *world) {
		all := w.skewed(10*time.Millisecond, 1500*time.Millisecond)
		w.reach(3, 20*time.Second, all...)
		w.book.watch()
		w.replica("c", 2, 1, quick()).start()
		time.Sleep(20 * time.Second)
		if gap := w.book.longest(); gap > 2*time.Second {
			t.Errorf("the longest time between two steps is %v, want at most 2s", gap)
		}
	})
}

// A drain of a skewed job ends within some steps, without a step lost.
func TestWorldDrainOfASkewedJob(t *testing.T) {
	t.Parallel()
	inWorld(t, usual(), func(w *world) {
		all := w.skewed(10*time.Millisecond, 1500*time.Millisecond, 20*time.Millisecond)
		w.reach(3, 30*time.Second, all...)
		c := all[2].ranks[0]
		discards := all[0].ranks[0].m.Stats().Discards
		c.drain()
		w.within(6*time.Second, "c is drained", func() bool { return c.over() })
		w.reach(10, 30*time.Second, all[:2]...)
		if now := all[0].ranks[0].m.Stats().Discards; now != discards {
			t.Errorf("%d steps were discarded for a drain, want none", now-discards)
		}
	})
}
