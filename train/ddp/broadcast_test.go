package ddp_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/dummy"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/tensor"
	"github.com/skerry-ft/skerry/train/ddp"
)

// TestPlainGroupTrains broadcasts parameters and averages gradients on three ranks.
func TestPlainGroupTrains(t *testing.T) {
	t.Parallel()
	network := pgtest.NewMemory()
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() {
			g := pg.NewGroup(network.Backend())
			defer func() { _ = g.Close() }() // the test is over
			if err := trainPlain(t.Context(), t, g, i); err != nil {
				t.Errorf("rank %d: %v", i, err)
			}
		})
	}
	wg.Wait()
}

func trainPlain(ctx context.Context, t *testing.T, g *pg.Group, rank int) error {
	if err := g.Configure(ctx, pg.Config{
		StoreAddress: "127.0.0.1:29500/skerry/cluster/default/1/0",
		ReplicaIDs:   []string{"a", "b", "c"}, Rank: rank, Cluster: "cluster", QuorumID: 1,
	}); err != nil {
		return err
	}
	param, buffer := []float32{float32(rank) + 7, 2}, []int64{int64(rank) + 5}
	if err := ddp.Broadcast(ctx, g, tensor.Of(param), tensor.Of(buffer)); err != nil {
		return err
	}
	if param[0] != 7 || buffer[0] != 5 {
		t.Errorf("rank %d: parameters %v, buffers %v, want rank 0's", rank, param, buffer)
	}
	grads := newModel([]int{4, 2}, rank, 0)
	red, err := ddp.New(ddp.Over(g), grads.params(), ddp.Options{BucketBytes: 8})
	if err != nil {
		return err
	}
	red.Ready(1)
	red.Ready(0)
	if err := red.Reduce(ctx); err != nil {
		return err
	}
	if want := []float32{1005, 1006}; !slices.Equal(grads[1], want) {
		t.Errorf("rank %d: gradient %v, want %v", rank, grads[1], want)
	}
	return g.Barrier(ctx) // closing breaks the group for those who are still in it
}

// together is a backend whose ops end when so many have been submitted.
type together struct {
	pg.Backend
	want  int
	works []*pg.Work
}

func (b *together) Submit(op *pg.Op) *pg.Work {
	b.works = append(b.works, pg.NewWork(op))
	if len(b.works) == b.want {
		for _, w := range b.works {
			w.Complete(nil)
		}
	}
	return b.works[len(b.works)-1]
}

func (b *together) Abort(_ pg.Epoch, cause error) {
	for _, w := range b.works {
		w.Complete(cause)
	}
}

// TestModelsAreInFlight: the ops of a model's tensors do not wait for each other.
func TestModelsAreInFlight(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	model := []tensor.Tensor{tensor.Of([]float32{1}), tensor.Of([]float32{2}), tensor.Of([]int64{3})}
	if err := ddp.Broadcast(ctx, pg.NewGroup(&together{Backend: dummy.New(), want: 3}), model...); err != nil {
		t.Errorf("broadcast: %v", err)
	}
	p := must(ddp.NewPostLocal(ddp.PostLocalConfig{Period: 1}))
	p.Commit()
	if _, err := p.Average(ctx, pg.NewGroup(&together{Backend: dummy.New(), want: 2}), model[:2]...); err != nil {
		t.Errorf("average: %v", err)
	}
}

// TestBroadcastOfMany: all of a model of more tensors than are under way at once comes; a tensor that
// one rank cannot give is named there, and ends the others' call with the group.
func TestBroadcastOfMany(t *testing.T) {
	t.Parallel()
	const many, bad = 200, 150
	strided := must(tensor.Of(make([]float32, 4)).AsStrided([]int{2}, []int{2}))
	for _, spoilt := range []bool{false, true} {
		err := pgtest.MemoryWorld(t, 2, nil).Try(func(ctx context.Context, rank int, g *pg.Group) error {
			values, model := make([][]float32, many), make([]tensor.Tensor, many)
			for i := range model {
				values[i] = []float32{float32(i - 1000*rank), 7}
				model[i] = tensor.Of(values[i])
			}
			if spoilt && rank == 1 {
				model[bad] = strided
			}
			err := ddp.Broadcast(ctx, g, model...)
			if spoilt {
				if rank == 1 {
					if !errors.Is(err, pg.ErrInvalidOp) || !strings.Contains(err.Error(), "tensor 150 of 200") {
						t.Errorf("rank 1: %v, want tensor 150 refused", err)
					}
					g.Abort(err)
				} else if !errors.Is(err, pg.ErrAborted) {
					t.Errorf("rank 0: %v, want ErrAborted", err)
				}
				values = values[:bad]
			} else if err != nil {
				return err
			}
			for i, v := range values {
				if v[0] != float32(i) {
					t.Errorf("rank %d: tensor %d is %v, want rank 0's", rank, i, v)
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}
