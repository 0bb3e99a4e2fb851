package ddp_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/skerry-ft/skerry/pg"
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
