package worlds

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/manager"
)

// flips flips a bit of each rank's parameters of r at the next pause between steps,
// and says so to the book: what the rank holds is judged again when it has healed.
func (r *replica) flips() (at *atomic.Int64) {
	at = new(atomic.Int64)
	r.orders.Store(&order{at: stagePause, do: func(_ context.Context, p *proc) {
		if p.rank == 0 && at.CompareAndSwap(0, p.m.Step()+1) {
			p.w.book.strays(p)
			i := modelSize / 2
			p.params[i] = math.Float32frombits(math.Float32bits(p.params[i]) ^ 1<<5)
		}
	}})
	return at
}

// differed are the replicas that p was told of.
func (b *book) differed(p *proc) []manager.StateDiffered {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.mu.differed[p])
}

// C1 at rest: a bit of one of three replicas flips. All name it, within the steps of
// one comparison; it heals, and holds the others' bytes again. That costs one step.
func TestWorldAFlippedBitIsNamedAndHeals(t *testing.T) {
	t.Parallel()
	inWorld(t, usual(), func(w *world) {
		all := w.replicas(3, quick())
		w.reach(20, 10*time.Second, all...)
		w.book.watch()
		a := all[0]
		at := a.flips()
		w.within(5*time.Second, "all name a", func() bool {
			return !slices.ContainsFunc(all, func(r *replica) bool { return len(w.book.differed(r.ranks[0])) == 0 })
		})
		w.within(5*time.Second, "a is healed", func() bool { return !w.book.isStray(a.ranks[0]) })
		w.reach(a.ranks[0].atStep()+30, 10*time.Second, all...)
		for _, r := range all {
			p := r.ranks[0]
			named := w.book.differed(p)
			if len(named) == 0 {
				continue // said above
			}
			if e := named[0]; len(named) != 1 || !slices.Equal(e.Replicas, []string{a.ranks[0].m.ReplicaID()}) || !e.Majority ||
				e.Step >= at.Load()+8 {
				t.Errorf("%s was told %v, want a named once, before step %d", p.name, named, at.Load()+8)
			}
			if d := p.m.Stats().Discards; d > 1 {
				t.Errorf("%s discarded %d steps, want one", p.name, d)
			}
		}
		if gap := w.book.longest(); gap > 250*time.Millisecond {
			t.Errorf("the longest time between two steps is %v, want a step, a round of asks and a configuration", gap)
		}
	})
}

// With two ranks each: one rank's bit flips. Its replica heals in both, the others
// name it in the one, and no rank waits for another.
func TestWorldAFlippedBitOfOneRank(t *testing.T) {
	t.Parallel()
	inWorld(t, usual(), func(w *world) {
		a, b, c := w.replica("a", 0, 2, quick()).start(), w.replica("b", 1, 2, quick()).start(), w.replica("c", 2, 2, quick()).start()
		w.reach(20, 10*time.Second, a, b, c)
		b.flips()
		w.within(5*time.Second, "b is named", func() bool { return len(w.book.differed(b.ranks[0])) > 0 })
		w.within(5*time.Second, "b is healed", func() bool { return !w.book.isStray(b.ranks[0]) })
		w.reach(b.ranks[0].atStep()+30, 10*time.Second, a, b, c)
		if n := len(w.book.differed(b.ranks[1])); n > 0 {
			t.Errorf("b's rank 1 was told %d times of states that differ, want never: its own are all right", n)
		}
	})
}

// A replica whose bits flip again and again is refused for ever longer, and costs the
// others ever less (L1).
func TestWorldWhoDiffersAgainAndAgainCostsEverLess(t *testing.T) {
	t.Parallel()
	inWorld(t, usual(), func(w *world) {
		all := w.replicas(3, quick())
		w.reach(20, 10*time.Second, all...)
		c := all[2]
		stop := time.Now().Add(3 * time.Minute)
		go func() { // ends with the world's time
			for time.Now().Before(stop) {
				c.flips()
				time.Sleep(50 * time.Millisecond)
			}
		}()
		time.Sleep(2 * time.Minute)
		lost := len(w.book.differed(all[0].ranks[0]))
		w.book.watch()
		at := all[0].ranks[0].atStep()
		time.Sleep(time.Minute)
		w.reach(at+2000, time.Second, all[0], all[1])
		if more := len(w.book.differed(all[0].ranks[0])) - lost; more > 2 || lost > 8 {
			t.Errorf("a lost %d steps in two minutes and %d in the third, want ever fewer", lost, more)
		}
		if gap := w.book.longest(); gap > 500*time.Millisecond {
			t.Errorf("the longest time between two steps in the third minute is %v", gap)
		}
	})
}

// parityWhole are manners with which all of the state is compared in every step.
func parityWhole(policy manager.Differing) manners {
	m := quick()
	m.tune = func(c *manager.Config) { c.ParityEvery, c.ParityWhole, c.OnDiffering = 1, true, policy }
	return m
}

// A bit that flips is found at the very step before which it flipped, where the whole
// state is compared in every step.
func TestWorldAFlippedBitIsFoundAtTheSameStep(t *testing.T) {
	t.Parallel()
	inWorld(t, usual(), func(w *world) {
		all := w.replicas(3, parityWhole(manager.HealDiffering))
		w.reach(20, 10*time.Second, all...)
		at := all[0].flips()
		w.within(5*time.Second, "all name a", func() bool {
			return !slices.ContainsFunc(all, func(r *replica) bool { return len(w.book.differed(r.ranks[0])) == 0 })
		})
		for _, r := range all {
			if e := w.book.differed(r.ranks[0])[0]; e.Step != at.Load() || e.Slice.Count != 1 {
				t.Errorf("%s: found at step %d in slice %+v, want step %d in the whole", r.name, e.Step, e.Slice, at.Load())
			}
		}
		w.within(5*time.Second, "a is healed", func() bool { return !w.book.isStray(all[0].ranks[0]) })
		w.reach(all[0].ranks[0].atStep()+30, 10*time.Second, all...)
	})
}

// Replicas that compare slices and ones that compare the whole state are in one job: nobody
// is named who is healthy, and a bit that flips is found by those of its kind.
func TestWorldSlicesBesideWholeStates(t *testing.T) {
	t.Parallel()
	inWorld(t, usual(), func(w *world) {
		var all []*replica
		for i, m := range []manners{parityWhole(manager.HealDiffering), quick(), parityWhole(manager.HealDiffering), quick()} {
			all = append(all, w.replica(string(rune('a'+i)), i, 1, m).start())
		}
		w.reach(100, 10*time.Second, all...)
		for _, r := range all {
			if n := len(w.book.differed(r.ranks[0])); n > 0 {
				t.Errorf("%s was told %d times of states that differ", r.name, n)
			}
		}
		all[3].flips()
		w.within(5*time.Second, "b or d is named", func() bool { return len(w.book.differed(all[1].ranks[0])) > 0 })
		for _, e := range w.book.differed(all[1].ranks[0]) {
			if id := e.Replicas[0]; len(e.Replicas) != 1 || id != all[1].ranks[0].m.ReplicaID() && id != all[3].ranks[0].m.ReplicaID() {
				t.Errorf("%v is named, want one that compares slices", e.Replicas)
			}
		}
	})
}

// What becomes of a replica that differs is the job's to say: it ends and the others train
// on, or all of them end; with two ranks each, both end.
func TestWorldPoliciesForStatesThatDiffer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		policy manager.Differing
		size   int
		ends   int
	}{
		{"the one that differs ends", manager.EndDiffering, 1, 1},
		{"and both of its ranks", manager.EndDiffering, 2, 1},
		{"all end", manager.StopAll, 1, 3},
		{"and all of their ranks", manager.StopAll, 2, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, usual(), func(w *world) {
				var mu sync.Mutex
				ended := make(map[string]error)
				w.onExit = func(p *proc, err error) {
					mu.Lock()
					defer mu.Unlock()
					ended[p.name] = err
				}
				var all []*replica
				for i := range 3 {
					all = append(all, w.replica(string(rune('a'+i)), i, c.size, parityWhole(c.policy)).start())
				}
				w.reach(20, 10*time.Second, all...)
				all[0].flips()
				w.within(30*time.Second, "they end", func() bool {
					mu.Lock()
					defer mu.Unlock()
					return len(ended) >= c.ends*c.size
				})
				mu.Lock()
				for _, r := range all[:c.ends] {
					err := ended[r.ranks[0].name]
					if !errors.Is(err, manager.ErrDiffered) || !strings.Contains(err.Error(), all[0].ranks[0].m.ReplicaID()) {
						t.Errorf("%s ended with %v, want ErrDiffered of a", r.name, err)
					}
				}
				mu.Unlock()
				if c.ends == 1 {
					w.reach(all[1].ranks[0].atStep()+30, 10*time.Second, all[1:]...)
				}
			})
		})
	}
}
