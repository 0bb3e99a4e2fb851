package pg_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/dummy"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/tensor"
)

// Three ranks average a gradient, in place and without a copy. The backend here
// is the in-memory one of the tests; tcp.New gives one between hosts.
func Example() {
	ctx := context.Background()
	network := pgtest.NewMemory()
	ids := []string{"replica-a", "replica-b", "replica-c"}
	var ranks sync.WaitGroup
	for rank := range ids {
		ranks.Go(func() {
			g := pg.NewGroup(network.Backend())
			defer g.Close()
			err := g.Configure(ctx, pg.Config{
				StoreAddress: "127.0.0.1:29500/skerry/cluster/default/1/0",
				ReplicaIDs:   ids, Rank: rank, Cluster: "cluster", QuorumID: 1,
			})
			if err != nil {
				fmt.Println(err)
				return
			}
			gradient := []float32{float32(rank), 10 * float32(rank)}
			if err := g.AllReduce(ctx, tensor.Of(gradient), tensor.Avg); err != nil {
				fmt.Println(err)
				return
			}
			fmt.Println(gradient)
			_ = g.Barrier(ctx) // closing breaks the group for those who are still in it
		})
	}
	ranks.Wait()
	// Output:
	// [1 10]
	// [1 10]
	// [1 10]
}

// An op is data; what the verbs do not offer, Do does.
func ExampleGroup_Do() {
	g := pg.NewGroup(dummy.New())
	ctx := context.Background()
	if err := g.Configure(ctx, pg.Config{ReplicaIDs: []string{"alone"}, QuorumID: 1}); err != nil {
		fmt.Println(err)
		return
	}
	in, out := []tensor.BF16{tensor.NewBF16(3)}, []tensor.BF16{0}
	err := g.Do(ctx, &pg.Op{
		Kind: pg.KindAllReduce, Reduce: tensor.Avg, Divisor: 2,
		In: []tensor.Tensor{tensor.Of(in)}, Out: []tensor.Tensor{tensor.Of(out)},
	})
	fmt.Println(out[0].Float32(), err)
	// Output: 1.5 <nil>
}
