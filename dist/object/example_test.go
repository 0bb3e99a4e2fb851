package object_test

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/skerry-ft/skerry/dist/object"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
)

// Values of any kind that the encoding knows travel with their types.
func ExampleBroadcast() {
	network := pgtest.NewMemory()
	ctx := context.Background()
	var ranks sync.WaitGroup
	for rank := range 3 {
		ranks.Go(func() {
			g := pg.NewGroup(network.Backend())
			err := g.Configure(ctx, pg.Config{
				StoreAddress: "here", ReplicaIDs: []string{"a", "b", "c"}, Rank: rank, Cluster: "c", QuorumID: 1,
			})
			list := []any{nil, nil, nil}
			if rank == 0 {
				list = []any{"foo", 12, map[int]int{1: 2}}
			}
			if err == nil {
				err = errors.Join(object.Broadcast(ctx, g, list, 0), g.Barrier(ctx), g.Close())
			}
			if err != nil || rank == 2 {
				fmt.Printf("%#v %v\n", list, err)
			}
		})
	}
	ranks.Wait()
	// Output: []interface {}{"foo", 12, map[int]int{1:2}} <nil>
}

// Structs travel as JSON.
func ExampleJSON() {
	type metrics struct {
		Loss float64 `json:"loss"`
		Seen int     `json:"seen"`
	}
	network := pgtest.NewMemory()
	ctx := context.Background()
	var ranks sync.WaitGroup
	for rank := range 2 {
		ranks.Go(func() {
			g := pg.NewGroup(network.Backend())
			err := g.Configure(ctx, pg.Config{
				StoreAddress: "here", ReplicaIDs: []string{"a", "b"}, Rank: rank, Cluster: "c", QuorumID: 1,
			})
			if err != nil {
				fmt.Println(err)
				return
			}
			all, err := object.JSON[metrics]{}.Gather(ctx, g, metrics{Loss: 0.5, Seen: 10 + rank}, 0)
			if rank == 0 {
				fmt.Println(all, err)
			}
			if err := errors.Join(g.Barrier(ctx), g.Close()); err != nil {
				fmt.Println(err)
			}
		})
	}
	ranks.Wait()
	// Output: [{0.5 10} {0.5 11}] <nil>
}
