package tcp_test

import (
	"context"
	"fmt"
	"log"
	"sync"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/tcp"
	"github.com/skerry-ft/skerry/store"
	"github.com/skerry-ft/skerry/tensor"
)

// Two ranks, here goroutines, meet at a store and add up their vectors.
func Example() {
	server, err := store.NewServer(store.ServerConfig{})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { server.Run(ctx) })

	sums := make([][]float32, 2)
	var ranks sync.WaitGroup
	for rank := range sums {
		ranks.Go(func() {
			g := pg.NewGroup(tcp.New(tcp.Options{}))
			defer g.Close()
			err := g.Configure(ctx, pg.Config{
				StoreAddress: server.Addr() + "/skerry/example/default/1/0",
				ReplicaIDs:   []string{"alpha", "beta"}, Rank: rank,
				Cluster: "example", QuorumID: 1, GroupWorldSize: 1,
			})
			if err != nil {
				log.Fatal(err)
			}
			v := []float32{float32(rank), 10}
			if err := g.AllReduce(ctx, tensor.Of(v), tensor.Sum); err != nil {
				log.Fatal(err)
			}
			sums[rank] = v
			if err := g.Barrier(ctx); err != nil { // so that neither leaves too soon
				log.Fatal(err)
			}
		})
	}
	ranks.Wait()
	cancel()
	wg.Wait()
	fmt.Println(sums[0], sums[1])
	// Output: [1 20] [1 20]
}
