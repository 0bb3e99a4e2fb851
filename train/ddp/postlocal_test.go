package ddp_test

import (
	"context"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/tensor"
	"github.com/skerry-ft/skerry/train/ddp"
)

// TestPostLocal trains a model of one number by gradients that are the rank's own plus
// one: before Start all models are equal, then they drift apart, and are averaged in every
// second step; with a subgroup its two ranks stay equal.
func TestPostLocal(t *testing.T) {
	t.Parallel()
	for _, grouped := range []bool{false, true} {
		w := pgtest.MemoryWorld(t, 3, nil)
		w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
			cfg := ddp.PostLocalConfig{Start: 2, Period: 2}
			own := float32(rank + 1) // gradient after Start
			if grouped {
				sub, err := g.NewGroup(ctx, []int{0, 1}, pg.GroupOptions{})
				if err != nil {
					return err
				}
				if rank < 2 {
					cfg.Subgroup, own = sub, 1.5
				}
			}
			p, err := ddp.NewPostLocal(cfg)
			if err != nil {
				return err
			}
			grad, model := []float32{0}, []float32{0}
			red, err := ddp.New(ddp.Over(g), []ddp.Param{{Name: "w", Grad: tensor.Of(grad)}}, ddp.Options{Hook: p})
			if err != nil {
				return err
			}
			want := float32(0)
			for step := range 7 {
				grad[0] = float32(rank + 1)
				red.Ready(0)
				if err := red.Reduce(ctx); err != nil {
					return err
				}
				model[0] += grad[0]
				averaged, err := p.Average(ctx, g, tensor.Of(model))
				if err != nil {
					return err
				}
				due := step >= 2 && step%2 == 0
				switch {
				case due:
					want = 2 * float32(step+1) // two a step on average, whichever way
				case step < 2:
					want += 2
				default:
					want += own
				}
				if model[0] != want || averaged != due {
					t.Errorf("grouped %v: rank %d step %d: model %v, averaged %v, want %v, %v", grouped, rank, step, model[0], averaged, want, due)
				}
			}
			return g.Barrier(ctx)
		})
	}
}

func TestPostLocalRefuses(t *testing.T) {
	t.Parallel()
	if _, err := ddp.NewPostLocal(ddp.PostLocalConfig{Start: -1}); err == nil ||
		!strings.Contains(err.Error(), "Start = -1, want 0 or more") || !strings.Contains(err.Error(), "Period = 0, want 1 or more") {
		t.Errorf("error %v, want both problems", err)
	}
	p := must(ddp.NewPostLocal(ddp.PostLocalConfig{Period: 1}))
	params := []ddp.Param{{Name: "w", Grad: tensor.Of([]float32{1})}}
	_, ranks := newWorld(1)
	for _, h := range []ddp.Hook{p, must(ddp.NewCompress(tensor.BFloat16, p))} {
		if _, err := ddp.New(ranks[0], params, ddp.Options{Hook: h}); err == nil || !strings.Contains(err.Error(), "under a manager") {
			t.Errorf("under a manager: %v, want it refused", err)
		}
	}
	red, err := ddp.New(ddp.Over(ranks[0].group), params, ddp.Options{Hook: p})
	if err != nil {
		t.Fatal(err)
	}
	red.Weigh(1, 2)
	red.Ready(0)
	if err := red.Reduce(t.Context()); err == nil || !strings.Contains(err.Error(), "want equal shares") {
		t.Errorf("weighed: %v, want it refused", err)
	}
	tensor.Slice[int64](p.State().Tensors["steps"])[0] = -3
	if err := p.Load(checkpoint.State{}); err == nil || !strings.Contains(err.Error(), "steps = -3") {
		t.Errorf("load: %v, want -3 steps refused", err)
	}
}
