package worlds

import (
	"context"
	"sync/atomic"
	"testing"
	"time"
)

// A ShouldCommit ends by its ctx before the rank has voted: the replica goes on.
func TestWorldShouldCommitEndsBeforeItsVote(t *testing.T) {
	t.Parallel()
	inWorld(t, usual(), func(w *world) {
		m := quick()
		ended := false
		m.ctxFor = func(ctx context.Context, p *proc, c call) (context.Context, context.CancelFunc) {
			if c == callCommit && p.m.Step() == 10 && !ended {
				ended = true
				w.book.fault(p.name, "ShouldCommit ends by its ctx")
				return context.WithTimeout(ctx, 100*time.Millisecond)
			}
			return ctx, func() {}
		}
		slow := quick()
		slow.at = func(ctx context.Context, p *proc, s stage) {
			if s == stageBallot && p.m.Step() == 10 {
				_ = wait(ctx, time.Second)
			}
		}
		a := w.replica("a", 0, 1, m).start()
		b := w.replica("b", 1, 1, slow).start()
		w.reach(60, 30*time.Second, a, b)
	})
}

// A blocking collective of a step whose quorum does not come ends by the step's
// deadline, and ShouldCommit says that the step does not count.
func TestWorldCollectiveWithoutAQuorumEnds(t *testing.T) {
	t.Parallel()
	o := usual()
	o.rules.MinReplicas = 2
	inWorld(t, o, func(w *world) {
		var turns atomic.Int64
		m := quick()
		m.at = func(_ context.Context, p *proc, s stage) {
			if s == stageEnded {
				turns.Add(1)
			}
		}
		a := w.replica("a", 0, 1, m).start()
		b := w.replica("b", 1, 1, quick()).start()
		w.reach(20, 10*time.Second, a, b)
		b.kill()
		time.Sleep(5 * time.Second)
		before := turns.Load()
		w.within(30*time.Second, "a's step ends", func() bool { return turns.Load() > before })
	})
}

// The connection between two ranks of a replica is reset while one waits for the
// vote of the other: the vote is repeated.
func TestWorldResetBetweenRanksDuringAVote(t *testing.T) {
	t.Parallel()
	inWorld(t, usual(), func(w *world) {
		m := quick()
		var struck atomic.Bool
		m.at = func(ctx context.Context, p *proc, s stage) {
			if s != stageBallot || p.rank != 0 || p.m.Step() != 20 || struck.Swap(true) {
				return
			}
			_ = wait(ctx, 500*time.Millisecond) // rank 1 has voted
			w.book.fault(p.name, "connection to rank 1 reset")
			p.host.ResetWith(p.r.ranks[1].name)
			_ = wait(ctx, 500*time.Millisecond)
		}
		a := w.replica("a", 0, 2, m).start()
		b := w.replica("b", 1, 2, quick()).start()
		w.reach(60, 5*time.Second, a, b)
	})
}

// A replica dies while another is between two steps, evaluating: the next quorum
// forms at once all the same.
func TestWorldDeathBetweenSteps(t *testing.T) {
	t.Parallel()
	inWorld(t, usual(), func(w *world) {
		evaluating := make(chan struct{})
		m := quick()
		m.at = func(ctx context.Context, p *proc, s stage) {
			if s == stagePause && p.m.Step() == 20 {
				close(evaluating)
				_ = wait(ctx, 5*time.Second)
			}
		}
		all := w.replicas(2, quick())
		c := w.replica("c", 2, 1, m).start()
		d := w.replica("d", 3, 1, quick()).start()
		<-evaluating
		time.Sleep(time.Second)
		before := c.ranks[0].m.QuorumID()
		d.kill()
		w.within(500*time.Millisecond, "the next quorum has c", func() bool {
			return c.ranks[0].m.QuorumID() > before && all[0].ranks[0].m.QuorumID() == c.ranks[0].m.QuorumID()
		})
		w.reach(60, 20*time.Second, append(all, c)...)
	})
}
