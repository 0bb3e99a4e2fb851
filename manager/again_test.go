package manager

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/skerry-ft/skerry/tensor"
)

// A loop that forgets ShouldCommit is told so, each time; the step is discarded,
// the next StartQuorum begins one, and the others lose no more than that.
func TestForgottenShouldCommit(t *testing.T) {
	t.Parallel()
	for name, forgetful := range map[string]func(context.Context, *trainer, []float32){
		"done": func(ctx context.Context, b *trainer, g []float32) {
			_ = b.m.Group().AllReduce(ctx, tensor.Of(g), tensor.Avg) // reported to the manager
		},
		"under way": func(_ context.Context, b *trainer, g []float32) {
			b.m.Group().AllReduceAsync(tensor.Of(g), tensor.Avg)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				a, b := w.trainer("a"), w.trainer("b")
				forgot := 0
				b.ops = func(ctx context.Context, grads []float32) error {
					if b.m.Step() >= 5 && forgot < 3 {
						forgot++
						forgetful(ctx, b, grads)
						if err := b.m.StartQuorum(ctx); !errors.Is(err, ErrStepOpen) {
							t.Errorf("StartQuorum without ShouldCommit = %v, want %v", err, ErrStepOpen)
						}
						if err := b.m.StartQuorum(ctx); err != nil {
							return err
						}
						gradient(b.name, b.m.Step(), grads)
					}
					_ = b.m.Group().AllReduce(ctx, tensor.Of(grads), tensor.Avg)
					return nil
				}
				a.ops = func(ctx context.Context, grads []float32) error {
					_ = a.m.Group().AllReduce(ctx, tensor.Of(grads), tensor.Avg)
					return nil
				}
				a.start(1 << 40)
				b.start(1 << 40)
				w.reaches(20, a, b)
				w.agree(a, b)
				if forgot != 3 {
					t.Errorf("ShouldCommit was forgotten %d times, want 3", forgot)
				}
			})
		})
	}
}

// A step that has issued nothing begins anew, without its error.
func TestStartQuorumAgainForgetsTheError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.trainer("a"), w.trainer("b")
		b.before = func(ctx context.Context, step int64) error {
			if step != 5 {
				return nil
			}
			b.m.ReportError(errCut)
			if err := b.m.StartQuorum(ctx); err != nil {
				return err
			}
			return b.m.Errored()
		}
		a.start(10)
		b.start(10)
		w.reaches(10, a, b)
		w.agree(a, b)
		if n := a.m.Stats().Discards + b.m.Stats().Discards; n != 0 {
			t.Errorf("%d steps discarded, want none", n)
		}
	})
}
