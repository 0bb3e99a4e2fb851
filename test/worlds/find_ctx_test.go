package worlds

import (
	"context"
	"sync/atomic"
	"testing"
	"time"
)

// L2: a ShouldCommit whose ctx ends while it waits for the step's collectives returns
// then, and does not wait for the other rank of its replica, which computes. (It waited
// for that rank's vote for Timeouts.Call, up to 5 s, with a ctx of its own.)
func TestWorldShouldCommitEndsWithItsCtxThoughASiblingComputes(t *testing.T) {
	t.Parallel()
	inWorld(t, usual(), func(w *world) {
		var asked, returned atomic.Int64 // when, 0: not yet
		m := quick()
		m.async = true
		m.at = func(ctx context.Context, p *proc, s stage) {
			switch {
			case p.m.Step() != 10 || returned.Load() != 0:
			case p.rank == 1 && s == stageStarted:
				_ = wait(ctx, 8*time.Second) // the forward pass of rank 1
			case p.rank == 0 && s == stageEnded && asked.Load() != 0:
				returned.Store(int64(w.now()))
			}
		}
		m.ctxFor = func(ctx context.Context, p *proc, c call) (context.Context, context.CancelFunc) {
			if c != callCommit || p.rank != 0 || p.m.Step() != 10 || asked.Load() != 0 {
				return ctx, func() {}
			}
			asked.Store(int64(w.now()))
			return context.WithTimeoutCause(ctx, 300*time.Millisecond, errEnded)
		}
		a := w.replica("a", 0, 2, m).start()
		b := w.replica("b", 1, 2, slowAt(quick(), stageStarted, 10, 8*time.Second)).start()
		w.within(30*time.Second, "the call of a's rank 0 returns", func() bool { return returned.Load() != 0 })
		if took := time.Duration(returned.Load() - asked.Load()); took > 500*time.Millisecond {
			t.Errorf("ShouldCommit returned %v after its call, with a ctx of 300ms", took)
		}
		w.reach(30, 60*time.Second, a, b)
	})
}
