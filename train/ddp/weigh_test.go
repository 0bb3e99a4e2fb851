package ddp_test

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/tensor"
	"github.com/skerry-ft/skerry/train/ddp"
)

// TestWeighIsTheMeanOverSamples: ranks with 5, 3 and 0 samples get the mean of the
// eight, of every dtype; then, without Weigh, the mean over ranks again.
func TestWeighIsTheMeanOverSamples(t *testing.T) {
	t.Parallel()
	network := pgtest.NewMemory()
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() {
			g := pg.NewGroup(network.Backend())
			defer func() { _ = g.Close() }() // the test is over
			if err := weighSteps(t.Context(), t, g, i); err != nil {
				t.Errorf("rank %d: %v", i, err)
			}
		})
	}
	wg.Wait()
}

func weighSteps(ctx context.Context, t *testing.T, g *pg.Group, rank int) error {
	if err := g.Configure(ctx, pg.Config{
		StoreAddress: "127.0.0.1:29500/skerry/cluster/default/1/0",
		ReplicaIDs:   []string{"a", "b", "c"}, Rank: rank, Cluster: "cluster", QuorumID: 1,
	}); err != nil {
		return err
	}
	samples := []int{5, 3, 0}[rank]
	mean := []float32{8, 24, float32(math.NaN())}[rank] // of a rank without samples: anything
	f32, f64 := []float32{mean, 2 * mean}, []float64{float64(mean)}
	c64, c128 := []complex64{complex(mean, -mean)}, []complex128{complex(float64(mean), 1)}
	bf16, f16 := []tensor.BF16{tensor.NewBF16(mean)}, []tensor.F16{tensor.NewF16(mean)}
	red, err := ddp.New(ddp.Over(g), []ddp.Param{
		{Name: "f32", Grad: tensor.Of(f32)}, {Name: "f64", Grad: tensor.Of(f64)},
		{Name: "c64", Grad: tensor.Of(c64)}, {Name: "c128", Grad: tensor.Of(c128)},
		{Name: "bf16", Grad: tensor.Of(bf16)}, {Name: "f16", Grad: tensor.Of(f16)},
	}, ddp.Options{})
	if err != nil {
		return err
	}
	red.Weigh(samples, 8)
	for i := range 6 {
		if samples > 0 {
			red.Ready(i)
		}
	}
	if err := red.Reduce(ctx); err != nil {
		return err
	}
	// (5*8 + 3*24) / 8
	if !slices.Equal(f32, []float32{14, 28}) || f64[0] != 14 || c64[0] != 14-14i || c128[0] != 14+1i ||
		bf16[0].Float32() != 14 || f16[0].Float32() != 14 {
		t.Errorf("rank %d: got %v %v %v %v %v %v, want 14 and the like", rank, f32, f64, c64, c128, bf16[0].Float32(), f16[0].Float32())
	}
	f32[0] = float32(3 * rank)
	for i := range 6 {
		red.Ready(i)
	}
	if err := red.Reduce(ctx); err != nil {
		return err
	}
	if f32[0] != 3 {
		t.Errorf("rank %d: the step after has %v, want the mean over ranks, 3", rank, f32[0])
	}
	return g.Barrier(ctx) // closing breaks the group for those who are still in it
}

func TestWeighMisusePanics(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]func(*ddp.Reducer){
		"-1 of 2":                func(r *ddp.Reducer) { r.Weigh(-1, 2) },
		"3 of 2":                 func(r *ddp.Reducer) { r.Weigh(3, 2) },
		"0 of 0":                 func(r *ddp.Reducer) { r.Weigh(0, 0) },
		`gradient "p1" is ready`: func(r *ddp.Reducer) { r.Ready(1); r.Weigh(1, 2) },
	} {
		_, ranks := newWorld(2) // no op ends: nothing is waited for
		red, err := ddp.New(ranks[0], newModel([]int{3, 3}, 0, 0).params(), ddp.Options{})
		if err != nil {
			t.Fatal(err)
		}
		func() {
			defer func() {
				if got, _ := recover().(string); !strings.Contains(got, name) {
					t.Errorf("%s: panic %q", name, got)
				}
			}()
			f(red)
		}()
	}
}
