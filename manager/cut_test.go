package manager

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// Every pattern of lost ballots between three replicas: six messages, 64
// patterns, one step each. Whoever was prepared rolls forward with whoever
// committed; nobody heals because of a ballot (C5).
func TestBallotsCutAtEveryMessage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		names := []string{"a", "b", "c"}
		var all []*trainer
		for rank, name := range names {
			mem := w.net.Backend()
			cut := func(from quorum.Position) []int {
				pattern := int(from.Step) / 2 // every other step, so that each begins in a standing quorum
				if from.Step%2 == 1 || pattern >= 64 {
					return nil
				}
				var lost []int
				for i, other := range []int{(rank + 1) % 3, (rank + 2) % 3} {
					if pattern>>(2*rank+i)&1 == 1 {
						lost = append(lost, other)
					}
				}
				return lost
			}
			all = append(all, w.trainerOn(name, mem, newBallotCutter(mem, cut)))
		}
		for _, tr := range all {
			tr.start(130)
		}
		w.reaches(130, all...)
		w.agree(all...)
		var forward, heals uint64
		for _, tr := range all {
			forward += tr.m.Stats().RolledForward
			heals += tr.m.Stats().Heals
		}
		// A lost ballot leaves its receiver prepared: in 64 patterns, each rank is
		// so in 48. A few hear from a member that it committed before they ask.
		if forward > 3*48 || forward < 100 || heals != 2 {
			t.Errorf("%d rolled forward, %d heals; want about %d, and the 2 of the first step", forward, heals, 3*48)
		}
	})
}

// The execution that positions prevent: one commits, the others give the step
// up and redo it in the next quorum. When the first comes back it is behind,
// though its step is the same.
func TestDivergenceIsHealed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.tune = func(c *Config) { c.StepTimeout = 1500 * time.Millisecond }
		names := []string{"a", "b", "c"}
		var all []*trainer
		for rank, name := range names {
			mem := w.net.Backend()
			cut := func(from quorum.Position) []int {
				if from.Step == 6 && rank > 0 {
					return []int{0}
				}
				return nil
			}
			all = append(all, w.trainerOn(name, mem, newBallotCutter(mem, cut)))
		}
		a, b, c := all[0], all[1], all[2]
		// From before the step until the others have redone it, nobody reaches the
		// lighthouse but through what the test allows.
		for _, tr := range all {
			tr.start(6)
		}
		w.reaches(6, all...)
		for _, tr := range all {
			w.lh.block(tr.m.ReplicaID(), true)
		}
		heals := a.m.Stats().Heals
		for _, tr := range all {
			tr.goOn(1 << 40)
		}
		w.reaches(7, a)
		first := a.m.Position()
		eventually(t, "b and c give step 7 up", func() bool {
			return b.m.Stats().Discards > 0 && c.m.Stats().Discards > 0
		})
		w.lh.block(b.m.ReplicaID(), false)
		w.lh.block(c.m.ReplicaID(), false)
		w.reaches(7, b, c)
		if p := b.m.Position(); p.Step == first.Step && p == first {
			t.Fatalf("b rolled forward to %+v after it had given up", p)
		}
		w.lh.block(a.m.ReplicaID(), false)
		eventually(t, "a heals", func() bool { return a.m.Stats().Heals > heals })
		w.reaches(a.m.Step()+5, all...)
		b.mu.Lock()
		for at := range b.mu.hashes {
			if at == first {
				t.Errorf("b committed %+v too: nothing diverged", at)
			}
		}
		b.mu.Unlock()
		w.agree(all...)
	})
}
