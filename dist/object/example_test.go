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
