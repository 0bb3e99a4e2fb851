package training

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/skerry-ft/skerry/dist"
	"github.com/skerry-ft/skerry/dist/object"
	"github.com/skerry-ft/skerry/manager"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// Objects and averages of several tensors in each step, over TCP, through replicas that
// leave and join: a verb is right, or the step is discarded with one error.
func TestComposedVerbsThroughRestarts(t *testing.T) {
	t.Parallel()
	for name, every := range map[string]bool{"standing": false, "every step": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var averages atomic.Int64
			verbs := func(ctx context.Context, tr *trainer) error {
				names, err := object.AllGather(ctx, tr.m.Group(), tr.name)
				switch {
				case errors.Is(err, pg.ErrAborted):
					return nil // the step is discarded
				case err != nil:
					return err
				}
				ts := []tensor.Tensor{tensor.Of([]float64{1}), tensor.Of([]float64{1})}
				if err := dist.AllReduceMulti(ctx, tr.m.Group(), ts, tensor.Avg); err != nil {
					return err
				}
				if tr.m.Errored() != nil {
					return nil
				}
				if got := tensor.Slice[float64](ts[0])[0]; got != 1 {
					return fmt.Errorf("step %d: average of ones of %v is %v", tr.m.Step(), names, got)
				}
				averages.Add(1)
				return nil
			}
			b := startLighthouse(t)
			tune := func(c *manager.Config) { c.EveryStep = every }
			one, two := startWith(t, b, "one", tune, verbs), startWith(t, b, "two", tune, verbs)
			reach(t, 10, one, two)
			for range 3 {
				three := startWith(t, b, "three", tune, verbs)
				reach(t, 10, one, two, three)
				agree(t, one, two, three)
				_ = three.stop()
				reach(t, 5, one, two)
			}
			agree(t, one, two)
			if n := averages.Load(); n < 100 {
				t.Errorf("%d averages were right, want 100", n)
			}
			if lost := one.m.Stats().Discards; lost > 3 {
				t.Errorf("%d steps discarded when 3 replicas left, want at most 3", lost)
			}
		})
	}
}
