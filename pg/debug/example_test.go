package debug_test

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/debug"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/tensor"
)

// Two ranks call different collectives. DETAIL finds out before either runs, and tells both
// what each called.
func Example() {
	ctx := context.Background()
	network := pgtest.NewMemory()
	ids := []string{"a", "b"}
	errs := make([]error, len(ids))
	var ranks sync.WaitGroup
	for rank := range ids {
		ranks.Go(func() {
			d := debug.New(debug.Config{Level: debug.Detail, Log: zerolog.Nop()})
			g := pg.NewGroup(d.Wrap("dp", network.Backend()))
			config := pg.Config{StoreAddress: "store/1", ReplicaIDs: ids, Rank: rank, Cluster: "c", QuorumID: 1}
			if errs[rank] = g.Configure(ctx, config); errs[rank] != nil {
				return
			}
			if rank == 0 {
				errs[rank] = g.AllReduce(ctx, tensor.Of([]float32{1, 2}), tensor.Sum)
			} else {
				errs[rank] = g.Broadcast(ctx, tensor.Of([]float32{1, 2}), 0)
			}
		})
	}
	ranks.Wait()
	for _, err := range errs {
		fmt.Println(errors.Unwrap(err))
	}
	// Output:
	// pg: ranks called different collectives: rank 0 (a) called all-reduce #1 of float32[2] by sum on cpu, but rank 1 (b) called broadcast #1 of float32[2] with root 0 on cpu
	// pg: ranks called different collectives: rank 0 (a) called all-reduce #1 of float32[2] by sum on cpu, but rank 1 (b) called broadcast #1 of float32[2] with root 0 on cpu
}
