package worlds

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/testkit"
)

// oneRankHangs: one rank of two hangs for ever, and the other goes on calling.
func oneRankHangs(t *testing.T, rank int, at stage) {
	o := usual()
	o.stepTimeout, o.rules.JoinTimeout, o.rules.StuckAfter = 3*time.Second, 2*time.Second, 10*time.Second
	inWorld(t, o, func(w *world) {
		a, b := w.replica("a", 0, 2, quick()).start(), w.replica("b", 1, 2, quick()).start()
		m := quick()
		m.at = func(ctx context.Context, p *proc, s stage) {
			if p.rank == rank && s == at && p.m.Step() >= 20 {
				p.hang(ctx)
			}
		}
		c := w.replica("c", 2, 2, m).start()
		w.reach(20, 10*time.Second, a, b, c)
		w.reach(200, 30*time.Second, a, b)
	})
}

func TestWorldRankZeroHangsBetweenSteps(t *testing.T)      { oneRankHangs(t, 0, stagePause) }
func TestWorldRankZeroHangsInTheForwardPass(t *testing.T)  { oneRankHangs(t, 0, stageStarted) }
func TestWorldRankZeroHangsBeforeItsBallot(t *testing.T)   { oneRankHangs(t, 0, stageBallot) }
func TestWorldRankOneHangsBetweenSteps(t *testing.T)       { oneRankHangs(t, 1, stagePause) }
func TestWorldRankOneHangsInTheForwardPass(t *testing.T)   { oneRankHangs(t, 1, stageStarted) }
func TestWorldRankOneHangsBetweenCollectives(t *testing.T) { oneRankHangs(t, 1, stageBetween) }
func TestWorldRankOneHangsBeforeItsBallot(t *testing.T)    { oneRankHangs(t, 1, stageBallot) }

// A rank that hung in a job's very first step keeps nobody out who comes later.
func TestWorldRankOneHangsInTheFirstStep(t *testing.T) {
	t.Parallel()
	o := usual()
	o.stepTimeout, o.rules.JoinTimeout, o.rules.StuckAfter = 3*time.Second, 2*time.Second, 10*time.Second
	inWorld(t, o, func(w *world) {
		m := quick()
		m.at = func(ctx context.Context, p *proc, s stage) {
			if p.rank == 1 && s == stageBallot {
				p.hang(ctx)
			}
		}
		w.replica("b", 1, 2, m).start()
		time.Sleep(10 * time.Second)
		a := w.replica("a", 0, 2, quick()).start()
		w.reach(20, 2*time.Minute, a) // after ten times StuckAfter
	})
}

// oneRankHangsAWhile: a rank that hung for a while, and the other that went on calling
// meanwhile, come together again by themselves, and cost the others nothing more.
func oneRankHangsAWhile(t *testing.T, rank int, at stage) {
	if testing.Short() && at != stageBallot {
		t.Skip("as before its ballot, at another point, for as many steps")
	}
	o := usual()
	o.stepTimeout, o.rules.JoinTimeout, o.rules.StuckAfter = 3*time.Second, 2*time.Second, 10*time.Second
	inWorld(t, o, func(w *world) {
		a, b := w.replica("a", 0, 2, quick()).start(), w.replica("b", 1, 2, quick()).start()
		var hung atomic.Bool
		m := quick()
		m.at = func(ctx context.Context, p *proc, s stage) {
			if p.rank == rank && s == at && p.m.Step() >= 20 && !hung.Swap(true) {
				w.book.fault(p.name, "trainer hangs for a while")
				p.takes(ctx, 30*time.Second)
				w.book.note(p.name, "trainer goes on")
			}
		}
		c := w.replica("c", 2, 2, m).start()
		w.reach(20, 10*time.Second, a, b, c)
		time.Sleep(40 * time.Second) // ten after the rank goes on
		step := a.ranks[0].atStep()
		w.reach(step+100, 30*time.Second, a, b, c)
	})
}

// TestWorldOneRankComesBack has one rank hang for a while, wherever in a step.
func TestWorldOneRankComesBack(t *testing.T) {
	t.Parallel()
	type row struct {
		name string
		rank int
		at   stage
	}
	for _, c := range testkit.Some([]row{
		{"rank 1, before its ballot", 1, stageBallot},
		{"rank 0, before its ballot", 0, stageBallot},
		{"rank 1, in the forward pass", 1, stageStarted},
		{"rank 0, in the forward pass", 0, stageStarted},
		{"rank 1, between steps", 1, stagePause},
		{"rank 0, between steps", 0, stagePause},
		{"rank 1, between collectives", 1, stageBetween},
	}, 2) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			oneRankHangsAWhile(t, c.rank, c.at)
		})
	}
}
