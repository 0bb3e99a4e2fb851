package worlds

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/manager"
)

// A replica from outside the quorum that wants nobody let in keeps nobody out but
// itself.
func TestWorldShrinkOnlyOfAnOutsider(t *testing.T) {
	t.Parallel()
	inWorld(t, usual(), func(w *world) {
		a := w.replica("a", 0, 1, quick()).start()
		w.reach(20, 10*time.Second, a)
		m := quick()
		m.start = func(p *proc) manager.StartOptions {
			return manager.StartOptions{ShrinkOnly: p.m.QuorumID() == 0}
		}
		b := w.replica("b", 1, 1, m).start()
		time.Sleep(5 * time.Second)
		c := w.replica("c", 2, 1, quick()).start()
		at := a.ranks[0].atStep()
		w.reach(at+20, 10*time.Second, a, b, c)
	})
}

// A wish of one StartQuorum ends with its step: a later one without it is let in.
func TestWorldShrinkOnlyEndsWithItsStep(t *testing.T) {
	t.Parallel()
	o := usual()
	o.stepTimeout = 3 * time.Second
	inWorld(t, o, func(w *world) {
		all := w.replicas(2, quick())
		m := quick()
		m.start = func(p *proc) manager.StartOptions {
			return manager.StartOptions{ShrinkOnly: p.m.Stats().Discards == 1}
		}
		c, d := w.replica("c", 2, 1, m).start(), w.replica("d", 3, 1, quick()).start()
		w.reach(20, 10*time.Second, append(all, c, d)...)
		w.net.HoldBoth(c.ranks[0].host.Name, "lighthouse", true)
		d.kill() // c's step is discarded, and the next begins with the wish
		time.Sleep(20 * time.Second)
		w.net.HoldBoth(c.ranks[0].host.Name, "lighthouse", false)
		at := all[0].ranks[0].atStep()
		w.reach(at+100, 20*time.Second, append(all, c)...)
	})
}

// A member that wants nobody let in for a while keeps joiners out for that while.
func TestWorldShrinkOnlyOfAMemberForAWhile(t *testing.T) {
	t.Parallel()
	inWorld(t, usual(), func(w *world) {
		m := quick()
		var shrinks atomic.Bool
		m.start = func(p *proc) manager.StartOptions {
			return manager.StartOptions{ShrinkOnly: shrinks.Load()}
		}
		a, b := w.replica("a", 0, 1, quick()).start(), w.replica("b", 1, 1, m).start()
		w.reach(20, 10*time.Second, a, b)
		shrinks.Store(true)
		c := w.replica("c", 2, 1, quick()).start()
		time.Sleep(time.Second)
		shrinks.Store(false)
		at := a.ranks[0].atStep()
		w.reach(at+20, 20*time.Second, a, b, c)
	})
}

// A member wants nobody let in, and those without whom it is too few are gone for
// good: it waits for them no longer than the join timeout. (Seed 1268.)
func TestWorldShrinkOnlyOfTooFew(t *testing.T) {
	t.Parallel()
	o := usual()
	o.rules.MinReplicas, o.rules.JoinTimeout = 2, 3*time.Second
	inWorld(t, o, func(w *world) {
		m := quick()
		var shrinks atomic.Bool
		m.start = func(*proc) manager.StartOptions { return manager.StartOptions{ShrinkOnly: shrinks.Load()} }
		m.tune = func(c *manager.Config) { c.Sync = true }
		a, b := w.replica("a", 0, 1, m).start(), w.replica("b", 1, 1, m).start()
		w.reach(20, 10*time.Second, a, b)
		shrinks.Store(true)
		time.Sleep(time.Second)
		b.kill()
		c := w.replica("c", 2, 1, m).start()
		w.reach(a.ranks[0].atStep()+20, 20*time.Second, a, c)
	})
}
