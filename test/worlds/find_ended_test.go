package worlds

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/manager"
)

// A StartQuorum's ctx ends while a state is being healed. That is no heal that failed:
// the quorum stands, and the next StartQuorum goes on.
func TestWorldEndedCtxIsNoFailedHeal(t *testing.T) {
	t.Parallel()
	inWorld(t, usual(), func(w *world) {
		busy := manners{forward: 100 * time.Millisecond}
		a := w.replica("a", 0, 1, busy).start()
		w.reach(20, 10*time.Second, a)
		slow := quick()
		slow.heals = 20 * time.Second // and a hundredth of that after the copy
		slow.tune = func(c *manager.Config) { c.Sync = true }
		var ended atomic.Int32
		slow.ctxFor = func(ctx context.Context, p *proc, c call) (context.Context, context.CancelFunc) {
			if c != callStart || ended.Load() == 3 {
				return ctx, func() {}
			}
			ctx, cancel := context.WithCancelCause(ctx)
			go func() {
				for !p.heals() && wait(ctx, 10*time.Millisecond) == nil {
				}
				if ctx.Err() == nil {
					ended.Add(1)
					cancel(errEnded)
				}
			}()
			return ctx, func() { cancel(nil) }
		}
		z := w.replica("z", 1, 1, slow).start()
		w.within(time.Minute, "z takes part", func() bool { return z.ranks[0].first() > 0 })
		s := a.ranks[0].m.Stats()
		if s.Discards > 0 || s.Quorums > 2 || ended.Load() == 0 {
			t.Errorf("%d StartQuorums ended in a heal, and a was in %d quorums and discarded %d steps; want 2, and no step",
				ended.Load(), s.Quorums, s.Discards)
		}
	})
}

// heals says whether a state is being fetched for a quorum.
func (p *proc) heals() bool { return p.m.QuorumID() != 0 && p.m.IsHealing() }
