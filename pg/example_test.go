package pg_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
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
			if err := g.AllReduce(ctx, pg.Of(gradient), pg.Avg); err != nil {
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
	g := pg.NewGroup(pg.NewDummy())
	ctx := context.Background()
	if err := g.Configure(ctx, pg.Config{ReplicaIDs: []string{"alone"}, QuorumID: 1}); err != nil {
		fmt.Println(err)
		return
	}
	in, out := []pg.BFloat16{pg.NewBFloat16(3)}, []pg.BFloat16{0}
	err := g.Do(ctx, &pg.Op{
		Kind: pg.KindAllReduce, Reduce: pg.Avg, Divisor: 2,
		In: []pg.Tensor{pg.Of(in)}, Out: []pg.Tensor{pg.Of(out)},
	})
	fmt.Println(out[0].Float32(), err)
	// Output: 1.5 <nil>
}
