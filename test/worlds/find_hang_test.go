package worlds

import (
	"context"
	"testing"
	"time"
)

// hangs makes a trainer hang for ever at a stage of a step.
func hangs(m manners, at stage, step int64) manners {
	m.at = func(ctx context.Context, p *proc, s stage) {
		if s == at && p.m.Step() >= step {
			p.hang(ctx)
		}
	}
	return m
}

// A trainer hangs for ever while its process lives: the others go on without it,
// wherever it hangs.
func hungTrainer(t *testing.T, at stage) {
	o := usual()
	o.stepTimeout, o.rules.JoinTimeout = 3*time.Second, 2*time.Second
	inWorld(t, o, func(w *world) {
		all := w.replicas(2, quick())
		c := w.replica("c", 2, 1, hangs(quick(), at, 20)).start()
		w.reach(20, 10*time.Second, append(all, c)...)
		w.reach(200, 30*time.Second, all...)
	})
}

func TestWorldTrainerHangsBetweenSteps(t *testing.T)       { hungTrainer(t, stagePause) }
func TestWorldTrainerHangsInTheForwardPass(t *testing.T)   { hungTrainer(t, stageStarted) }
func TestWorldTrainerHangsBetweenCollectives(t *testing.T) { hungTrainer(t, stageBetween) }
func TestWorldTrainerHangsBeforeItsBallot(t *testing.T)    { hungTrainer(t, stageBallot) }

// A trainer that hung for a minute comes back by itself.
func TestWorldHungTrainerComesBack(t *testing.T) {
	t.Parallel()
	o := usual()
	o.stepTimeout, o.rules.JoinTimeout = 3*time.Second, 2*time.Second
	inWorld(t, o, func(w *world) {
		all := w.replicas(2, quick())
		m := quick()
		hung := false
		m.at = func(ctx context.Context, p *proc, s stage) {
			if s == stageStarted && p.m.Step() >= 20 && !hung {
				hung = true
				w.book.fault(p.name, "trainer hangs for a minute")
				_ = wait(ctx, time.Minute)
				w.book.note(p.name, "trainer goes on")
			}
		}
		c := w.replica("c", 2, 1, m).start()
		w.reach(20, 10*time.Second, append(all, c)...)
		w.reach(60, 50*time.Second, all...)
		time.Sleep(time.Minute)
		at := all[0].ranks[0].atStep()
		w.reach(at+100, 20*time.Second, append(all, c)...)
	})
}

// The deadline of a step is in force in the first quorum of a job, too, in which
// replicas healed at step 0.
func TestWorldStepTimeoutInTheFirstQuorum(t *testing.T) {
	t.Parallel()
	o := usual()
	o.stepTimeout = 3 * time.Second
	inWorld(t, o, func(w *world) {
		a := w.replica("a", 0, 1, quick()).start()
		w.replica("b", 1, 1, hangs(quick(), stageBetween, 5)).start()
		w.reach(5, 10*time.Second, a)
		w.within(5*time.Second, "a discards the step", func() bool { return a.ranks[0].m.Stats().Discards > 0 })
	})
}

// It is in force after a join whose heal is over.
func TestWorldStepTimeoutAfterAJoin(t *testing.T) {
	t.Parallel()
	o := usual()
	o.stepTimeout = 3 * time.Second
	inWorld(t, o, func(w *world) {
		all := w.replicas(2, quick())
		w.reach(20, 10*time.Second, all...)
		c := w.replica("c", 2, 1, hangs(quick(), stageBetween, 60)).start()
		w.reach(60, 10*time.Second, append(all, c)...)
		w.within(5*time.Second, "a discards the step", func() bool { return all[0].ranks[0].m.Stats().Discards > 0 })
	})
}

// One rank of the only holder hangs right before its quorum falls, when its manager
// cannot know yet that it does. Its siblings wait for its vote, newcomers for its
// state: it goes away all the same, and they train without it.
func TestWorldHolderHangsAsItsQuorumFalls(t *testing.T) {
	t.Parallel()
	o := usual()
	o.stepTimeout, o.rules.MinReplicas = 3*time.Second, 2
	o.rules.JoinTimeout, o.rules.StuckAfter = 2*time.Second, 5*time.Second
	inWorld(t, o, func(w *world) {
		a := w.replica("a", 0, 2, quick()).start()
		m := quick()
		m.at = func(ctx context.Context, p *proc, s stage) {
			if s == stageBetween && p.rank == 1 && p.m.Step() >= 20 {
				p.hang(ctx)
			}
		}
		holder := w.replica("b", 1, 2, m).start()
		w.within(10*time.Second, "one rank of b hangs", func() bool { return holder.ranks[1].hangs() })
		time.Sleep(2 * time.Second)
		a.kill()
		others := []*replica{a.start(), w.replica("c", 2, 2, quick()).start()}
		w.reach(40, 30*time.Second, others...)
	})
}
