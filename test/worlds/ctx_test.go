package worlds

import (
	"context"
	"sync/atomic"
	"testing"
	"time"
)

// cutter ends the ctx of one call, once, when its situation has come.
type cutter struct {
	call  call
	after time.Duration // 0: it has ended before the call
	fired atomic.Bool
	inner atomic.Bool // the call had not returned when its ctx ended
	ready atomic.Pointer[func(p *proc) bool]
}

// when says which call it is.
func (k *cutter) when(ready func(p *proc) bool) { k.ready.Store(&ready) }

func (k *cutter) manners(m manners) manners {
	m.ctxFor = func(ctx context.Context, p *proc, c call) (context.Context, context.CancelFunc) {
		if ready := k.ready.Load(); c != k.call || ready == nil || !(*ready)(p) || k.fired.Swap(true) {
			return ctx, func() {}
		}
		p.w.book.fault(p.name, "the ctx of %v ends in %v", c, k.after)
		began := time.Now()
		cctx, cancel := context.WithTimeoutCause(ctx, k.after, errEnded)
		return cctx, func() {
			// Not cctx.Err(): who waits until the deadline may be told of it first.
			k.inner.Store(time.Since(began) >= k.after)
			cancel()
		}
	}
	return m
}

func always(*proc) bool { return true }

// unharmed: no operation of the attempt has failed.
func unharmed(p *proc) bool { return p.m.Errored() == nil }

func atStep(step int64) func(p *proc) bool {
	return func(p *proc) bool { return p.m.Step() == step }
}

// slowAt makes a trainer take d at a stage of a step.
func slowAt(m manners, at stage, step int64, d time.Duration) manners {
	m.at = func(ctx context.Context, p *proc, s stage) {
		if s == at && p.m.Step() == step {
			_ = wait(ctx, d)
		}
	}
	return m
}

// ctxRows are the awaits of the three calls, each with a world in which the call
// waits there for about a second.
var ctxRows = []struct {
	name  string
	call  call
	world func(w *world, k *cutter) []*replica
}{
	{"StartQuorum/for the first quorum", callStart, func(w *world, k *cutter) []*replica {
		k.when(always)
		a := w.replica("a", 0, 1, k.manners(quick())).start()
		w.house.hold(w, time.Second)
		return []*replica{a, w.replica("b", 1, 1, quick()).start()}
	}},
	{"StartQuorum/for the group", callStart, func(w *world, k *cutter) []*replica {
		k.when(always)
		b := w.replica("b", 1, 1, quick()).start()
		w.reach(20, 10*time.Second, b)
		w.net.HoldBoth(b.ranks[0].host.Name, "lighthouse", true) // b cannot ask
		a := w.replica("a", 0, 1, k.manners(quick())).start()
		time.Sleep(time.Second / 2)
		w.net.HoldBoth(b.ranks[0].host.Name, "lighthouse", false)
		return []*replica{a, b}
	}},
	{"StartQuorum/for the heal", callStart, func(w *world, k *cutter) []*replica {
		b := w.replica("b", 1, 1, quick()).start()
		w.reach(20, 10*time.Second, b)
		k.when(always)
		m := quick()
		m.heals = time.Second
		return []*replica{w.replica("a", 0, 1, k.manners(m)).start(), b}
	}},
	{"AllReduce/for the quorum", callReduce, func(w *world, k *cutter) []*replica {
		m := quick()
		m.forward = 100 * time.Millisecond
		a, b, c := w.replica("a", 0, 1, k.manners(m)).start(), w.replica("b", 1, 1, m).start(), w.replica("c", 2, 1, m).start()
		w.reach(10, 10*time.Second, a, b, c)
		w.house.hold(w, time.Second)
		c.kill()
		k.when(unharmed)
		return []*replica{a, b}
	}},
	{"AllReduce/for the others", callReduce, func(w *world, k *cutter) []*replica {
		k.when(atStep(10))
		return []*replica{w.replica("a", 0, 1, k.manners(quick())).start(),
			w.replica("b", 1, 1, slowAt(quick(), stageStarted, 10, time.Second)).start()}
	}},
	{"ShouldCommit/for the quorum", callCommit, func(w *world, k *cutter) []*replica {
		m := quick()
		m.async, m.forward = true, 100*time.Millisecond
		a, b, c := w.replica("a", 0, 1, k.manners(m)).start(), w.replica("b", 1, 1, m).start(), w.replica("c", 2, 1, m).start()
		w.reach(10, 10*time.Second, a, b, c)
		w.house.hold(w, time.Second)
		c.kill()
		k.when(unharmed)
		return []*replica{a, b}
	}},
	{"ShouldCommit/for the collectives", callCommit, func(w *world, k *cutter) []*replica {
		m := quick()
		m.async = true
		k.when(atStep(10))
		return []*replica{w.replica("a", 0, 1, k.manners(m)).start(),
			w.replica("b", 1, 1, slowAt(m, stageStarted, 10, time.Second)).start()}
	}},
	{"ShouldCommit/for the heal beside the step", callCommit, func(w *world, k *cutter) []*replica {
		m := k.manners(quick())
		m.heals = time.Second
		all := w.replicas(2, quick())
		c, d := w.replica("c", 2, 1, m).start(), w.replica("d", 3, 1, quick()).start()
		w.reach(10, 10*time.Second, append(all, c, d)...)
		w.net.HoldBoth(c.ranks[0].host.Name, "lighthouse", true)
		d.kill()
		w.reach(50, 20*time.Second, all...)
		k.when(func(p *proc) bool { return p.m.IsHealing() })
		w.net.HoldBoth(c.ranks[0].host.Name, "lighthouse", false)
		return append(all, c)
	}},
	{"ShouldCommit/for the ballots", callCommit, func(w *world, k *cutter) []*replica {
		k.when(atStep(10))
		return []*replica{w.replica("a", 0, 1, k.manners(quick())).start(),
			w.replica("b", 1, 1, slowAt(quick(), stageBallot, 10, time.Second)).start()}
	}},
	{"ShouldCommit/for the other rank's vote, rank 0", callCommit, ranksVote(0)},
	{"ShouldCommit/for the other rank's vote, rank 1", callCommit, ranksVote(1)},
	{"ShouldCommit/for the settlement", callCommit, func(w *world, k *cutter) []*replica {
		c := w.replica("c", 2, 1, slowAt(quick(), stageBallot, 10, time.Minute)).start()
		a, b := w.replica("a", 0, 1, k.manners(quick())).start(), w.replica("b", 1, 1, quick()).start()
		k.when(atStep(10))
		w.within(10*time.Second, "a and b have given their ballots", func() bool { return k.fired.Load() })
		w.house.hold(w, time.Second)
		c.kill()
		return []*replica{a, b}
	}},
}

// ranksVote: one of two ranks waits for the other, which is slow to vote.
func ranksVote(rank int) func(w *world, k *cutter) []*replica {
	return func(w *world, k *cutter) []*replica {
		k.when(func(p *proc) bool { return p.rank == rank && p.m.Step() == 10 })
		m := k.manners(quick())
		m.at = func(ctx context.Context, p *proc, s stage) {
			if s == stageBallot && p.rank != rank && p.m.Step() == 10 {
				_ = wait(ctx, time.Second)
			}
		}
		return []*replica{w.replica("a", 0, 2, m).start(), w.replica("b", 1, 2, quick()).start()}
	}
}

// A ctx that ends, wherever the call waits, costs a step at most: position and
// return value agree (the book looks), all go on together, and the next step counts.
func TestWorldCtxEnds(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{0, 300 * time.Millisecond} {
		for _, row := range ctxRows {
			t.Run(row.name+"/"+after.String(), func(t *testing.T) {
				inWorld(t, usual(), func(w *world) {
					k := &cutter{call: row.call, after: after}
					all := row.world(w, k)
					w.within(20*time.Second, "the ctx ends while the call waits", func() bool { return k.inner.Load() })
					at := int64(0)
					for _, r := range all {
						at = max(at, r.ranks[0].atStep())
					}
					w.reach(at+20, 20*time.Second, all...)
				})
			})
		}
	}
}

// hold keeps everybody from the lighthouse for a while, beside the script.
func (h *house) hold(w *world, d time.Duration) {
	for _, p := range w.procs() {
		w.net.HoldBoth(p.host.Name, "lighthouse", true)
	}
	time.AfterFunc(d, func() {
		for _, p := range w.procs() {
			w.net.HoldBoth(p.host.Name, "lighthouse", false)
		}
	})
}
