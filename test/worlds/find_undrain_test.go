package worlds

import (
	"testing"
	"time"
)

// An operator drains the wrong replica, in the middle of a long step, and takes that back: it
// trains on, and no step is done anew. Drained after that it goes.
func TestWorldDrainTakenBack(t *testing.T) {
	t.Parallel()
	inWorld(t, usual(), func(w *world) {
		m := quick()
		m.forward = 5 * time.Second
		job := w.replicas(3, m)
		w.reach(3, 2*time.Minute, job...)
		time.Sleep(time.Second)
		a := job[0].ranks[0]
		at, before := a.m.Step(), a.m.Stats().Discards
		w.orderDrain(job[2])
		time.Sleep(time.Second)
		w.orderUndrain(job[2])
		w.reach(at+5, 2*time.Minute, job...)
		if job[2].over() {
			t.Error("the replica whose drain was taken back has gone")
		}
		if n := job[2].ranks[0].stays.Load(); n != 1 {
			t.Errorf("the replica heard %d times that it stays, want once", n)
		}
		if n := a.m.Stats().Discards - before; n > 0 {
			t.Errorf("%d steps were discarded for a drain that was taken back, want none", n)
		}
		w.orderDrain(job[2])
		w.within(2*time.Minute, "c is drained", job[2].over)
		w.reach(a.m.Step()+2, 2*time.Minute, job[:2]...)
	})
}

// The word that it stays is lost with the stream that it was on. The replica says again that it
// was told to drain, and hears that this holds no more.
func TestWorldDrainTakenBackUnheard(t *testing.T) {
	t.Parallel()
	inWorld(t, usual(), func(w *world) {
		m := quick()
		m.forward = 5 * time.Second
		job := w.replicas(3, m)
		w.reach(3, 2*time.Minute, job...)
		time.Sleep(time.Second)
		at, c := job[0].ranks[0].m.Step(), job[2]
		w.orderDrain(c)
		time.Sleep(100 * time.Millisecond)
		w.net.HoldBoth(c.ranks[0].host.Name, "lighthouse", true)
		w.orderUndrain(c)
		w.restartHouse(100*time.Millisecond, false)
		w.net.HoldBoth(c.ranks[0].host.Name, "lighthouse", false)
		w.reach(at+5, 2*time.Minute, job...)
		if c.over() {
			t.Error("the replica whose drain was taken back has gone")
		}
		if n := c.ranks[0].stays.Load(); n != 1 {
			t.Errorf("the replica heard %d times that it stays, want once", n)
		}
	})
}
