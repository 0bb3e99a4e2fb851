package worlds

import (
	"context"
	"testing"
	"time"
)

// A trainer that is alone in its quorum hangs for ever: a replica that comes later
// trains without it after ten times StuckAfter (PROTOCOL §6).
func TestWorldLoneTrainerHangs(t *testing.T) { loneTrainerHangs(t, stageBallot) }

// The same between two steps, where its state is not there to be copied.
func TestWorldLoneTrainerHangsBetweenSteps(t *testing.T) { loneTrainerHangs(t, stagePause) }

func loneTrainerHangs(t *testing.T, at stage) {
	o := usual()
	o.stepTimeout, o.rules.JoinTimeout, o.rules.StuckAfter = 3*time.Second, 2*time.Second, 10*time.Second
	inWorld(t, o, func(w *world) {
		b := w.replica("b", 1, 1, hangs(quick(), at, 20)).start()
		w.reach(20, 10*time.Second, b)
		time.Sleep(time.Second)
		a := w.replica("a", 0, 1, quick()).start()
		w.within(2*time.Minute, "a commits", func() bool { return a.ranks[0].first() > 0 })
	})
}

// The same with two ranks, of which one hangs: one rank of the newcomer has copied,
// and waits for the other, whose donor it is. (Seed 1259.)
func TestWorldLoneRankHangsBetweenSteps(t *testing.T) {
	t.Parallel()
	o := usual()
	o.stepTimeout, o.rules.JoinTimeout, o.rules.StuckAfter = 3*time.Second, 2*time.Second, 10*time.Second
	inWorld(t, o, func(w *world) {
		m := quick()
		m.at = func(ctx context.Context, p *proc, s stage) {
			if s == stageEnded && p.rank == 1 && p.m.Step() >= 20 {
				p.hang(ctx)
			}
		}
		b := w.replica("b", 1, 2, m).start()
		w.reach(20, 10*time.Second, b)
		a := w.replica("a", 0, 2, quick()).start()
		w.within(150*time.Second, "a commits", func() bool { return a.ranks[0].first() > 0 && a.ranks[1].first() > 0 })
	})
}

// A replica that is still in its first step was lost, and rejoins beside its forward
// pass: what it computed from the state of step 0 does not count in the others' step.
func TestWorldRejoinBesideTheFirstForwardPass(t *testing.T) {
	t.Parallel()
	inWorld(t, usual(), func(w *world) {
		m := quick()
		m.at = func(ctx context.Context, p *proc, s stage) {
			if s == stageStarted && p.m.Step() == 0 && p.m.Stats().Discards == 0 {
				_ = wait(ctx, 8*time.Second)
			}
		}
		a := w.replica("a", 0, 1, quick()).start()
		c := w.replica("c", 2, 1, m).start()
		w.within(10*time.Second, "c begins its step", func() bool { return c.ranks[0].m.QuorumID() != 0 })
		w.net.HoldBoth(c.ranks[0].host.Name, "lighthouse", true)
		w.reach(20, 7*time.Second, a)
		w.net.HoldBoth(c.ranks[0].host.Name, "lighthouse", false)
		w.reach(200, 20*time.Second, a, c)
	})
}

// A newcomer of two ranks joins, though one of them finds a donor much later than the
// other.
func TestWorldRanksOfANewcomerComeAtDifferentTimes(t *testing.T) {
	t.Parallel()
	inWorld(t, usual(), func(w *world) {
		b := w.replica("b", 1, 2, quick()).start()
		w.reach(20, 10*time.Second, b)
		m := quick()
		m.tuneRank = func(p *proc) {
			if p.rank == 1 {
				p.healer.fetching = 20 * time.Second
			}
		}
		a := w.replica("a", 0, 2, m).start()
		time.Sleep(5 * time.Second)
		a.ranks[0].host.ResetWith("lighthouse")
		w.within(90*time.Second, "a commits", func() bool { return a.ranks[0].first() > 0 && a.ranks[1].first() > 0 })
	})
}

// A replica joins while its first step is prepared, promising to heal before it
// computes, as all do at step 0; the answer rolls the step forward. It still heals
// before it computes, for the quorum counts its gradients.
func TestWorldPreparedFirstStepRollsForwardAndHeals(t *testing.T) {
	t.Parallel()
	inWorld(t, usual(), func(w *world) {
		a := w.replica("a", 0, 1, quick()).start()
		b := w.replica("b", 1, 1, hangs(quick(), stageBallot, 0)).start()
		m := quick()
		m.heals = 150 * time.Millisecond
		c := w.replica("c", 2, 1, m).start()
		w.within(5*time.Second, "a and c have given their ballots", func() bool {
			return b.ranks[0].hangs() && a.ranks[0].at() == stageBallot && c.ranks[0].at() == stageBallot
		})
		for _, r := range []*replica{b, c} {
			w.net.HoldBoth(r.ranks[0].host.Name, "lighthouse", true)
		}
		w.reach(5, 10*time.Second, a)
		w.net.HoldBoth(c.ranks[0].host.Name, "lighthouse", false)
		at := a.ranks[0].atStep()
		w.reach(at+100, 20*time.Second, a, c)
	})
}
