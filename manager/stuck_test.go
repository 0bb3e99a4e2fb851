package manager

import (
	"context"
	"testing"
	"testing/synctest"
)

// A trainer hangs between StartQuorum and its collective; its process beats, and
// its manager joins for it. The others wait in theirs, and say so: the one that
// hangs ends the quorum, the others train on without it, and it comes back when
// its trainer goes on.
func TestHungTrainerIsLeftOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rules := testRules()
		rules.StuckAfter = rules.HeartbeatTimeout
		w := newWorldWith(t, rules)
		w.tune = func(c *Config) { c.StepTimeout, c.HealTimeout = 2*patience, 2*patience } // the deadlines do not help
		a, b, c := w.trainer("a"), w.trainer("b"), w.trainer("c")
		goOn := make(chan struct{})
		c.before = func(ctx context.Context, step int64) error {
			if step == 5 {
				select {
				case <-goOn:
				case <-ctx.Done():
				}
			}
			return nil
		}
		a.start(30)
		b.start(30)
		c.start(1 << 40)
		w.reaches(30, a, b)
		if got := a.m.NumParticipants(); got != 2 {
			t.Errorf("%d participants, want 2, without the one that hangs", got)
		}
		close(goOn)
		a.goOn(1 << 40)
		b.goOn(1 << 40)
		eventually(t, "c takes part again", func() bool { return a.m.NumParticipants() == 3 && c.m.IsParticipating() })
		a.stop()
		b.stop()
		c.stop()
		w.agree(a, b, c)
	})
}
