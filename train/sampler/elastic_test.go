package sampler_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/tensor"
	"github.com/skerry-ft/skerry/train/sampler"
)

func elastic(t *testing.T, cfg sampler.ElasticConfig) *sampler.Elastic {
	t.Helper()
	e, err := sampler.NewElastic(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// job is the samplers of a run's replicas, and the ledger of what its model has read.
type job struct {
	t        *testing.T
	cfg      sampler.ElasticConfig
	draw     *rand.Rand
	replicas []*sampler.Elastic
	ledger   [][2]int64 // epoch, sample, of committed steps
}

// heal copies from's state into to, as a manager does.
func heal(t *testing.T, to, from *sampler.Elastic) {
	t.Helper()
	s, own := from.State(), to.State()
	for name, tt := range own.Tensors {
		copy(tt.Bytes(), s.Tensors[name].Bytes())
	}
	if err := to.Load(checkpoint.State{Tensors: own.Tensors, Meta: s.Meta}); err != nil {
		t.Fatal(err)
	}
}

// step is one step: newcomers heal beside it, and count for nothing.
func (j *job) step(newcomers int) {
	var read [][2]int64
	for i, r := range j.replicas {
		s := r.Next(sampler.Share{Rank: i, Count: len(j.replicas)})
		for _, row := range s.Rows {
			read = append(read, [2]int64{s.Epoch, int64(row)})
		}
		if want := s.Total; i == len(j.replicas)-1 && len(read) != want {
			j.t.Fatalf("shares have %d samples, Total says %d", len(read), want)
		}
	}
	fresh := make([]*sampler.Elastic, newcomers)
	for i := range fresh {
		fresh[i] = elastic(j.t, j.cfg)
		fresh[i].Next(sampler.Share{Rank: -1, Count: len(j.replicas)})
		heal(j.t, fresh[i], j.replicas[0])
	}
	commit := j.draw.IntN(4) > 0
	if commit {
		j.ledger = append(j.ledger, read...)
		for _, r := range slices.Concat(j.replicas, fresh) {
			r.Commit()
		}
	}
	j.replicas = append(j.replicas, fresh...)
}

// TestEverySampleOnce is the sampler's promise: over membership changes in every few
// steps, discarded steps, heals, and a death of all that goes on from a checkpoint,
// committed steps read each sample of each epoch exactly once.
func TestEverySampleOnce(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		cfg := sampler.ElasticConfig{Samples: 997, Batch: 5, Seed: seed}
		if seed%2 == 1 {
			cfg.Batch, cfg.GlobalBatch = 0, 48
		}
		j := &job{t: t, cfg: cfg, draw: rand.New(rand.NewPCG(seed, 1))}
		j.replicas = []*sampler.Elastic{elastic(t, cfg), elastic(t, cfg), elastic(t, cfg)}
		saved, at := elastic(t, cfg), 0
		for n, allDied := 0, false; j.replicas[0].Epoch() < 4; n++ {
			newcomers := 0
			switch {
			case n%9 == 0 && len(j.replicas) > 1:
				j.replicas = slices.Delete(j.replicas, 0, 1+j.draw.IntN(len(j.replicas)-1))
			case n%5 == 0:
				newcomers = 1 + j.draw.IntN(3)
			}
			j.step(newcomers)
			if n == 30 {
				heal(t, saved, j.replicas[0])
				at = len(j.ledger)
			}
			if n == 37 && !allDied {
				allDied = true
				j.ledger = j.ledger[:at] // the model is that of the checkpoint
				j.replicas = []*sampler.Elastic{elastic(t, cfg)}
				heal(t, j.replicas[0], saved)
			}
		}
		j.checkEpochs(3)
	}
}

func (j *job) checkEpochs(n int64) {
	j.t.Helper()
	counts := make(map[[2]int64]int)
	for _, entry := range j.ledger {
		counts[entry]++
	}
	for epoch := range n {
		for sample := range int64(j.cfg.Samples) {
			if got := counts[[2]int64{epoch, sample}]; got != 1 {
				j.t.Fatalf("seed %d: sample %d of epoch %d was read %d times", j.cfg.Seed, sample, epoch, got)
			}
		}
	}
}

// TestSharesOfTheLastStep: what is left at an epoch's end is dealt out evenly.
func TestSharesOfTheLastStep(t *testing.T) {
	t.Parallel()
	e := elastic(t, sampler.ElasticConfig{Samples: 10, Batch: 4, InOrder: true})
	if s := e.Next(sampler.Share{Rank: 1, Count: 2}); !slices.Equal(s.Rows, []int{4, 5, 6, 7}) || s.Total != 8 || s.Last {
		t.Errorf("first step: %+v", s)
	}
	e.Commit()
	var sizes []int
	for r := range 3 {
		s := e.Next(sampler.Share{Rank: r, Count: 3})
		sizes = append(sizes, len(s.Rows))
		if s.Total != 2 || !s.Last || s.Epoch != 0 {
			t.Errorf("last step: %+v", s)
		}
	}
	if !slices.Equal(sizes, []int{0, 1, 1}) {
		t.Errorf("shares of two samples among three: %v", sizes)
	}
	e.Commit()
	if e.Epoch() != 1 || e.Read() != 0 {
		t.Errorf("after the last step: epoch %d, %d read", e.Epoch(), e.Read())
	}
}

func TestGlobalBatchStays(t *testing.T) {
	t.Parallel()
	for count := 1; count <= 7; count++ {
		e := elastic(t, sampler.ElasticConfig{Samples: 1000, GlobalBatch: 20})
		got, sizes := 0, make(map[int]bool)
		for r := range count {
			s := e.Next(sampler.Share{Rank: r, Count: count})
			got += len(s.Rows)
			sizes[len(s.Rows)] = true
		}
		if got != 20 || len(sizes) > 2 {
			t.Errorf("%d shares: %d samples, %d sizes", count, got, len(sizes))
		}
	}
}

func TestShareOf(t *testing.T) {
	t.Parallel()
	if got, want := sampler.ShareOf(2, 3, 1, 4), (sampler.Share{Rank: 9, Count: 12}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got, want := sampler.ShareOf(-1, 3, 1, 4), (sampler.Share{Rank: -1, Count: 12}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestCommitAfterAHeal: a heal that comes between Next and Commit moves the cursor,
// and Commit goes on from there, with the shares of the step.
func TestCommitAfterAHeal(t *testing.T) {
	t.Parallel()
	cfg := sampler.ElasticConfig{Samples: 10, Batch: 4}
	old, fresh := elastic(t, cfg), elastic(t, cfg)
	old.Next(sampler.Share{Rank: 0, Count: 2})
	old.Commit()
	old.Next(sampler.Share{Rank: 0, Count: 2})
	fresh.Next(sampler.Share{Rank: -1, Count: 2}) // of eight samples, as it seems
	heal(t, fresh, old)
	old.Commit()
	fresh.Commit()
	if fresh.Epoch() != old.Epoch() || fresh.Read() != old.Read() {
		t.Errorf("cursors (%d, %d) and (%d, %d)", fresh.Epoch(), fresh.Read(), old.Epoch(), old.Read())
	}
}

func TestStateOfAnotherDatasetIsRefused(t *testing.T) {
	t.Parallel()
	from := elastic(t, sampler.ElasticConfig{Samples: 10, Batch: 4, Seed: 1})
	for _, cfg := range []sampler.ElasticConfig{
		{Samples: 11, Batch: 4, Seed: 1}, {Samples: 10, Batch: 4, Seed: 2}, {Samples: 10, Batch: 4, Seed: 1, InOrder: true},
	} {
		if err := elastic(t, cfg).Load(from.State()); err == nil || !strings.Contains(err.Error(), "as here") {
			t.Errorf("%+v: error %v", cfg, err)
		}
	}
	for _, cursor := range [][]int64{{-1, 0}, {0, -1}, {0, 10}} {
		to := elastic(t, sampler.ElasticConfig{Samples: 10, Batch: 4, Seed: 1})
		copy(tensor.Slice[int64](to.State().Tensors["cursor"]), cursor)
		if err := to.Load(from.State()); err == nil || !strings.Contains(err.Error(), "want 0 or more") {
			t.Errorf("cursor %v: error %v", cursor, err)
		}
	}
}

func TestMisusePanics(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]func(e *sampler.Elastic){
		"Commit first": func(e *sampler.Elastic) { e.Commit() },
		"Commit twice": func(e *sampler.Elastic) { e.Next(sampler.Share{Count: 1}); e.Commit(); e.Commit() },
		"no shares":    func(e *sampler.Elastic) { e.Next(sampler.Share{}) },
		"rank 2 of 2":  func(e *sampler.Elastic) { e.Next(sampler.Share{Rank: 2, Count: 2}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f(elastic(t, sampler.ElasticConfig{Samples: 10, Batch: 4}))
		}()
	}
}

func Example() {
	s, err := sampler.NewElastic(sampler.ElasticConfig{Samples: 10, Batch: 2, InOrder: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	// Two replicas take part, of which this is the first.
	step := s.Next(sampler.ShareOf(0, 2, 0, 1))
	fmt.Println(step.Rows, "of", step.Total)
	s.Commit()
	// One replica has died: this one reads what follows alone.
	step = s.Next(sampler.ShareOf(0, 1, 0, 1))
	fmt.Println(step.Rows, "of", step.Total)
	// The step is discarded, and a third replica is there.
	step = s.Next(sampler.ShareOf(0, 3, 0, 1))
	fmt.Println(step.Rows, "of", step.Total)
	// Output:
	// [0 1] of 4
	// [4 5] of 2
	// [4 5] of 6
}
