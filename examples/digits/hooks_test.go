package digits

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/train/ddp"
)

// accuracy trains replicas of the model over a plain group with a hook, and returns rank
// 0's accuracy in the test.
func accuracy(t *testing.T, seed uint64, hook string, replicas int, steps int64) float64 {
	t.Helper()
	rows, test, err := Load(seed)
	if err != nil {
		t.Fatal(err)
	}
	var got float64
	hashes := make([]string, replicas)
	w := pgtest.MemoryWorld(t, replicas, nil)
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		m := NewModel(seed)
		sgd := NewSGD(m.Params(), steps)
		params, err := gradients(m)
		if err != nil {
			return err
		}
		h, _, err := newHook(hook, params)
		if err != nil {
			return err
		}
		red, err := ddp.New(ddp.Over(g), params, ddp.Options{Hook: h})
		if err != nil {
			return err
		}
		for step := range steps {
			sgd.ZeroGrad()
			m.Learn(rows.Batch(seed, step, Shard{rank, replicas}, BatchRows), red.Ready)
			if err := red.Reduce(ctx); err != nil {
				return err
			}
			sgd.Step()
		}
		hashes[rank] = m.Hash()
		if rank == 0 {
			got = m.Accuracy(test)
		}
		return g.Barrier(ctx)
	})
	for rank, h := range hashes {
		if h != hashes[0] {
			t.Errorf("%s: ranks 0 and %d hold two models", hook, rank)
		}
	}
	return got
}

// TestHooksLearn: with each hook the model becomes as good as without, within one point.
func TestHooksLearn(t *testing.T) {
	t.Parallel()
	steps, want, less := int64(400), 0.95, 0.01
	if testing.Short() { // too few to end within a point
		steps, want, less = 100, 0.85, 0.05
	}
	plain := accuracy(t, 1, HookNone, 2, steps)
	if plain < want {
		t.Fatalf("accuracy without a hook %.4f after %d steps, want %v or more", plain, steps, want)
	}
	for _, hook := range Hooks()[1:] {
		t.Run(hook, func(t *testing.T) {
			t.Parallel()
			if got := accuracy(t, 1, hook, 2, steps); got < plain-less {
				t.Errorf("accuracy %.4f, want %.4f less %v", got, plain, less)
			}
		})
	}
}

var seeds = flag.Int("digits.seeds", 0, "learn digits with each hook from so many seeds, from 101 on, and hold the means against those without")

// TestHooksAccuracy: over seeds that no setting was chosen by, each hook's mean accuracy is
// that without, but for a point.
func TestHooksAccuracy(t *testing.T) {
	if *seeds == 0 {
		t.Skip("-digits.seeds says how many seeds; make accuracy")
	}
	const first, replicas, steps = 101, 3, 600
	sum := make(map[string]float64)
	for seed := uint64(first); seed < first+uint64(*seeds); seed++ {
		for _, hook := range Hooks() {
			sum[hook] += accuracy(t, seed, hook, replicas, steps) / float64(*seeds)
		}
	}
	for _, hook := range Hooks() {
		t.Logf("mean of %d seeds: %s %.4f", *seeds, hook, sum[hook])
		if sum[hook] < sum[HookNone]-0.01 {
			t.Errorf("%s has a mean accuracy of %.4f, want %.4f at least", hook, sum[hook], sum[HookNone]-0.01)
		}
	}
}

func TestHookIsNamed(t *testing.T) {
	t.Parallel()
	c := Config{Steps: 1, Shard: Shard{0, 1}, Hook: "zip"}
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("Hook = %q, want one of none, fp16", "zip")) {
		t.Errorf("error %v, want the hooks named", err)
	}
}
