package dist_test

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/skerry-ft/skerry/dist"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/store"
	"github.com/skerry-ft/skerry/tensor"
)

// inWorld runs f as every rank of a world of n, which meet in a store in memory.
func inWorld(n int, f func(ctx context.Context, w *dist.World) error) {
	network := pgtest.NewMemory()
	const driver = "memory-example"
	if !pg.Available(driver) {
		open := func(pg.Options) (pg.Backend, error) { return network.Backend(), nil }
		if err := pg.Register(driver, []string{"cpu"}, open); err != nil {
			fmt.Println(err)
			return
		}
	}
	meet := store.NewHash()
	defer meet.Close()
	ctx := context.Background()
	var ranks sync.WaitGroup
	for rank := range n {
		ranks.Go(func() {
			w, err := dist.Init(ctx, dist.InitConfig{Backend: driver, Store: meet, Rank: new(rank), WorldSize: n})
			if err == nil {
				err = errors.Join(f(ctx, w), w.Barrier(ctx), w.Destroy())
			}
			if err != nil {
				fmt.Println(err)
			}
		})
	}
	ranks.Wait()
}

// Two ranks meet and sum up. In a program Method would be env:// (the default),
// tcp://10.1.1.20:23456 or file:///shared/file, and Backend "tcp".
func ExampleInit() {
	inWorld(2, func(ctx context.Context, w *dist.World) error {
		x := []int64{1 + 2*int64(w.Rank()), 2 + 2*int64(w.Rank())}
		if err := w.AllReduce(ctx, tensor.Of(x), tensor.Sum); err != nil {
			return err
		}
		if w.Rank() == 0 {
			fmt.Println(x)
		}
		return nil
	})
	// Output: [4 6]
}

// Tensors of different lengths are gathered in their own shapes.
func ExampleAllGatherUneven() {
	inWorld(3, func(ctx context.Context, w *dist.World) error {
		all, err := dist.AllGatherUneven(ctx, w.Group, tensor.Of(make([]float32, w.Rank())))
		if err != nil {
			return err
		}
		if w.Rank() == 1 {
			fmt.Println(all)
		}
		return nil
	})
	// Output: [float32[0] float32[1] float32[2]]
}

// One that does not come is named.
func ExampleMonitoredBarrier() {
	network := pgtest.NewMemory()
	ctx := context.Background()
	var ranks sync.WaitGroup
	for rank := range 2 {
		ranks.Go(func() {
			g := pg.NewGroup(network.Backend())
			err := g.Configure(ctx, pg.Config{
				StoreAddress: "here", ReplicaIDs: []string{"a", "b"}, Rank: rank, Cluster: "c", QuorumID: 1,
			})
			if err == nil && rank == 0 {
				fmt.Println(dist.MonitoredBarrier(ctx, g, dist.MonitorOptions{Timeout: 2e6}))
			}
			if rank == 1 { // stays away until the group breaks
				_, err = g.Recv(ctx, tensor.Of([]byte{0}), pg.Envelope{Peer: 0})
			}
			_ = err
			_ = g.Close()
		})
	}
	ranks.Wait()
	// Output: dist: rank 1 (b) did not reach the monitored barrier within 2ms
}
