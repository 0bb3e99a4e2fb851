package manager

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/skerry-ft/skerry/quorum"
)

// A rank that dies takes its replica out at once, whichever it is: its siblings
// are told, whatever they wait in, and the other replicas go on. They have no
// timeout that would end the test in time.
func TestOneRankDies(t *testing.T) {
	t.Parallel()
	for dead, name := range []string{"rank 0", "rank 1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := patientWorld(t)
				a, b, c := w.replica("a", 2, nil), w.replica("b", 2, nil), w.replica("c", 2, nil)
				for _, r := range []*ranked{a, b, c} {
					r.start(1 << 40)
				}
				for rank := range 2 {
					w.reaches(5, rankOf(rank, a, b, c)...)
				}
				c.ranks[dead].kill()
				c.ranks[1-dead].ended(ErrRankLost)
				if dead == 1 { // rank 0 speaks to the lighthouse
					eventually(t, "the lighthouse knows why", func() bool {
						return w.lh.status("c").Why == "left: group rank 1 is gone"
					})
				}
				for rank := range 2 {
					w.reaches(a.ranks[rank].m.Step()+10, rankOf(rank, a, b)...)
					w.agree(rankOf(rank, a, b, c)...)
				}
			})
		})
	}
}

// patientWorld has no timeout that is shorter than the tests' patience.
func patientWorld(t *testing.T) *world {
	t.Helper()
	rules := testRules()
	rules.JoinTimeout, rules.StuckAfter = 4*patience, 8*patience
	w := newWorldWith(t, rules)
	w.tune = func(c *Config) { c.StepTimeout, c.HealTimeout = 4*patience, 4*patience }
	return w
}

// The same while the sibling waits: in StartQuorum for a quorum that needs
// another replica, in a collective, for the dead rank's vote.
func TestOneRankDiesWhileAnotherWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rules := testRules()
		rules.MinReplicas = 2
		rules.JoinTimeout = 4 * patience
		w := newWorldWith(t, rules)
		w.tune = func(c *Config) { c.StepTimeout, c.HealTimeout = 4*patience, 4*patience }
		a := w.replica("a", 2, nil).start(1)
		eventually(t, "both ranks listen", func() bool { return a.ranks[0].m.replica.Linked(1) })
		a.ranks[0].kill()
		a.ranks[1].ended(ErrRankLost)

		votes := patientWorld(t)
		b := votes.replica("b", 2, nil)
		stuck := make(chan struct{})
		b.ranks[1].before = func(ctx context.Context, step int64) error {
			if step < 3 {
				return nil
			}
			close(stuck)
			<-ctx.Done()
			return ctx.Err()
		}
		b.start(1 << 40)
		<-stuck
		eventually(t, "rank 0 votes", func() bool { return b.ranks[0].m.beat().Phase == quorum.PhaseBalloting })
		b.ranks[1].kill()
		b.ranks[0].ended(ErrRankLost)
	})
}

// A rank that closes in good order ends the replica too.
func TestOneRankCloses(t *testing.T) {
	t.Parallel()
	for closed, name := range []string{"rank 0", "rank 1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := patientWorld(t)
				a, b := w.replica("a", 2, nil).start(1<<40), w.replica("b", 2, nil).start(1<<40)
				for rank := range 2 {
					w.reaches(5, rankOf(rank, a, b)...)
				}
				b.ranks[closed].stop()
				b.ranks[1-closed].ended(ErrRankLost)
				for rank := range 2 {
					w.reaches(a.ranks[rank].m.Step()+5, a.ranks[rank])
				}
			})
		})
	}
}

// A link that is cut and comes back, or a rank that starts late, is no death.
func TestRanksThatAreNotDead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.replica("a", 2, nil)
		a.ranks[0].start(5)
		a.ranks[1].start(5)
		w.reaches(5, a.ranks...)
		for range 5 {
			a.ranks[1].host.Reset()
			eventually(t, "rank 1 listens again", func() bool { return a.ranks[0].m.replica.Linked(1) })
		}
		for _, tr := range a.ranks {
			tr.goOn(10)
		}
		w.reaches(10, a.ranks...)
		inStep(t, a)
	})
}

// The link between the ranks of a replica breaks again and again: no step is
// committed by one of them alone.
func TestLinkBetweenRanksBreaks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.replica("a", 2, nil)
		a.ranks[1].before = func(_ context.Context, step int64) error {
			if step%5 == 1 {
				a.ranks[1].host.Reset()
			} else if step%5 > 2 {
				a.ranks[1].host.CutAnswer()
			}
			return nil
		}
		b := w.replica("b", 2, nil)
		a.start(40)
		b.start(40)
		for rank := range 2 {
			w.reaches(40, rankOf(rank, a, b)...)
			w.agree(rankOf(rank, a, b)...)
		}
		inStep(t, a, b)
	})
}
