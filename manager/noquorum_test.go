package manager

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skerry-ft/skerry/tensor"
)

// A blocking collective of a step whose quorum does not come ends, and the step
// is discarded.
func TestBlockingCollectiveWithoutAQuorum(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.tune = func(c *Config) { c.StepTimeout, c.HealTimeout = 300*time.Millisecond, time.Second }
		a := w.trainer("a").start(3)
		w.reaches(3, a)
		w.wire.HoldBoth(a.host.Name, w.lh.host.Name, true) // it takes in nothing from now on
		a.m.fall(a.m.QuorumID(), errors.New("test"))
		ctx := limited(t)
		if err := a.m.StartQuorum(ctx); err != nil {
			t.Fatal(err)
		}
		if err := a.m.Group().AllReduce(context.Background(), tensor.Of(make([]float32, 8)), tensor.Avg); err != nil {
			t.Errorf("%v, want what goes wrong to be reported to the manager", err)
		}
		if err := a.m.Errored(); !errors.Is(err, errNoQuorum) {
			t.Errorf("the step's error is %v, want %v", err, errNoQuorum)
		}
		if ok, err := a.m.ShouldCommit(ctx); ok || err != nil {
			t.Errorf("ShouldCommit = %t, %v; want a discard", ok, err)
		}
	})
}

// Too few replicas: the steps fail at the trainer's own pace, in one quorum. None is
// asked for, written down and configured until another replica comes.
func TestTooFewAskForNoQuorum(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.tune = func(c *Config) { c.MinReplicas = 2 }
		a := w.trainer("a").start(1 << 40)
		eventually(t, "100 steps are discarded", func() bool { return a.m.Stats().Discards >= 100 })
		if s := a.m.Stats(); s.Quorums != 1 || s.Joins != 1 || s.Reconfigures != 1 || s.Commits != 0 {
			t.Errorf("%d discarded steps took %d quorums, %d joins, %d configurations, %d commits; want 1, 1, 1, 0",
				s.Discards, s.Quorums, s.Joins, s.Reconfigures, s.Commits)
		}
		b := w.trainer("b").start(1 << 40)
		w.reaches(10, a, b)
		w.agree(a, b)
	})
}
