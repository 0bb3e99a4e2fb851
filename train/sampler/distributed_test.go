package sampler_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/train/sampler"
)

// epoch is what all ranks together read in one epoch, rank by rank.
func epoch(t *testing.T, cfg sampler.Config, n int64) [][]int {
	t.Helper()
	all := make([][]int, cfg.Ranks)
	for cfg.Rank = range cfg.Ranks {
		d, err := sampler.NewDistributed(cfg)
		if err != nil {
			t.Fatal(err)
		}
		all[cfg.Rank] = slices.Collect(d.Epoch(n))
		if got := len(all[cfg.Rank]); got != d.Len() {
			t.Errorf("%+v: %d samples, Len says %d", cfg, got, d.Len())
		}
	}
	return all
}

// TestDistributed: shards are disjoint, and together what Uneven says.
func TestDistributed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		samples, ranks int
		uneven         sampler.Uneven
		lengths        []int
		twice, never   int
	}{
		{12, 4, sampler.Pad, []int{3, 3, 3, 3}, 0, 0},
		{10, 4, sampler.Pad, []int{3, 3, 3, 3}, 2, 0},
		{10, 4, sampler.Drop, []int{2, 2, 2, 2}, 0, 2},
		{10, 4, sampler.Keep, []int{3, 3, 2, 2}, 0, 0},
		{2, 5, sampler.Pad, []int{1, 1, 1, 1, 1}, 2, 0}, // one of them three times
		{2, 5, sampler.Drop, []int{0, 0, 0, 0, 0}, 0, 2},
		{2, 5, sampler.Keep, []int{1, 1, 0, 0, 0}, 0, 0},
		{1, 1, sampler.Pad, []int{1}, 0, 0},
	} {
		counts := make([]int, c.samples)
		for r, rows := range epoch(t, sampler.Config{Samples: c.samples, Ranks: c.ranks, Seed: 3, Uneven: c.uneven}, 1) {
			if len(rows) != c.lengths[r] {
				t.Errorf("%+v: rank %d has %d samples", c, r, len(rows))
			}
			for _, i := range rows {
				counts[i]++
			}
		}
		twice, never := 0, 0
		for _, n := range counts {
			if n > 1 {
				twice++
			}
			if n == 0 {
				never++
			}
		}
		if twice != c.twice || never != c.never {
			t.Errorf("%+v: %d samples more than once, %d never", c, twice, never)
		}
	}
}

// TestDistributedInOrder is torch's own example: rank r takes every Ranks-th sample,
// and the padding begins again at the first.
func TestDistributedInOrder(t *testing.T) {
	t.Parallel()
	got := epoch(t, sampler.Config{Samples: 10, Ranks: 4, InOrder: true}, 5)
	want := [][]int{{0, 4, 8}, {1, 5, 9}, {2, 6, 0}, {3, 7, 1}}
	if !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestDistributedShufflesByEpoch(t *testing.T) {
	t.Parallel()
	cfg := sampler.Config{Samples: 100, Ranks: 2, Seed: 4}
	if one, two := epoch(t, cfg, 1), epoch(t, cfg, 2); slices.Equal(one[0], two[0]) {
		t.Error("two epochs have one order")
	}
	d, err := sampler.NewDistributed(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for range d.Epoch(1) {
		break // an iterator that is left early ends
	}
}

func TestConfigsAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cfg  sampler.Config
		want string
	}{
		{sampler.Config{}, "Samples = 0, want 1 or more"},
		{sampler.Config{Samples: 1}, "Ranks = 0, want 1 or more"},
		{sampler.Config{Samples: 1, Ranks: 2, Rank: 2}, "Rank = 2, want 0 to Ranks-1, 1"},
		{sampler.Config{Samples: 1, Ranks: 2, Rank: -1}, "Rank = -1"},
		{sampler.Config{Samples: 1, Ranks: 2, Uneven: 3}, "Uneven = 3, want 0 to 2"},
	} {
		if _, err := sampler.NewDistributed(c.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want %q", c.cfg, err, c.want)
		}
	}
	for _, c := range []struct {
		cfg  sampler.ElasticConfig
		want string
	}{
		{sampler.ElasticConfig{Batch: 1}, "Samples = 0, want 1 or more"},
		{sampler.ElasticConfig{Samples: 1}, "GlobalBatch = 0, want 1 or more with Batch = 0"},
		{sampler.ElasticConfig{Samples: 1, Batch: 2, GlobalBatch: 2}, "(it is 2)"},
		{sampler.ElasticConfig{Samples: 1, Batch: -1, GlobalBatch: 2}, "Batch = -1, want 0 or more"},
	} {
		if _, err := sampler.NewElastic(c.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want %q", c.cfg, err, c.want)
		}
	}
}
