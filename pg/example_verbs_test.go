package pg_test

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/store"
	"github.com/skerry-ft/skerry/tensor"
)

// inWorld runs f as every rank of a world of n, which meet in a store in memory.
func inWorld(n int, f func(ctx context.Context, w *pg.World) error) {
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
			w, err := pg.Init(ctx, pg.InitConfig{Backend: driver, Store: meet, Rank: new(rank), WorldSize: n})
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
	inWorld(2, func(ctx context.Context, w *pg.World) error {
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

// Values of any kind that the encoding knows travel with their types.
func ExampleGroup_BroadcastObjects() {
	inWorld(3, func(ctx context.Context, w *pg.World) error {
		objects := []any{nil, nil, nil}
		if w.Rank() == 0 {
			objects = []any{"foo", 12, map[int]int{1: 2}}
		}
		if err := w.BroadcastObjects(ctx, objects, 0); err != nil {
			return err
		}
		if w.Rank() == 2 {
			fmt.Printf("%#v\n", objects)
		}
		return nil
	})
	// Output: []interface {}{"foo", 12, map[int]int{1:2}}
}

// Parts of uneven length change places.
func ExampleGroup_AllToAllSingle() {
	inWorld(2, func(ctx context.Context, w *pg.World) error {
		in := [][]int64{{0, 1, 2}, {10, 11, 12}}[w.Rank()]
		splits := []pg.Splits{{In: []int{1, 2}, Out: []int{1, 2}}, {In: []int{2, 1}, Out: []int{2, 1}}}[w.Rank()]
		out := make([]int64, 3)
		if err := w.AllToAllSingle(ctx, tensor.Of(in), tensor.Of(out), splits); err != nil {
			return err
		}
		if w.Rank() == 0 {
			fmt.Println(out)
		}
		return nil
	})
	// Output: [0 10 11]
}

// A ring: each rank sends to the next and receives from the one before, as one
// batch, so that nobody waits for anybody to begin.
func ExampleGroup_BatchSendRecv() {
	inWorld(3, func(ctx context.Context, w *pg.World) error {
		next, prev := (w.Rank()+1)%3, (w.Rank()+2)%3
		got := []int64{0}
		ops := []*pg.Op{
			pg.SendOp(tensor.Of([]int64{int64(w.Rank())}), pg.Envelope{Peer: next}),
			pg.RecvOp(tensor.Of(got), pg.Envelope{Peer: prev}),
		}
		if err := w.BatchSendRecv(ctx, ops); err != nil {
			return err
		}
		if w.Rank() == 0 {
			fmt.Println("rank 0 got", got[0], "from", ops[1].Source)
		}
		return nil
	})
	// Output: rank 0 got 2 from 2
}

// Pairs of neighbours sum up among themselves.
func ExampleGroup_NewSubgroups() {
	inWorld(4, func(ctx context.Context, w *pg.World) error {
		pair, _, err := w.NewSubgroups(ctx, 2, pg.GroupOptions{})
		if err != nil {
			return err
		}
		x := []int64{int64(w.Rank())}
		if err := pair.AllReduce(ctx, tensor.Of(x), tensor.Sum); err != nil {
			return err
		}
		if w.Rank() == 3 {
			fmt.Println(pair.GroupName(), pair.Ranks(), x)
		}
		return nil
	})
	// Output: 1 [2 3] [5]
}

// Tensors of different lengths are gathered in their own shapes.
func ExampleGroup_AllGatherUneven() {
	inWorld(3, func(ctx context.Context, w *pg.World) error {
		all, err := w.AllGatherUneven(ctx, tensor.Of(make([]float32, w.Rank())))
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
func ExampleGroup_MonitoredBarrier() {
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
				fmt.Println(g.MonitoredBarrier(ctx, pg.MonitorOptions{Timeout: 2e6}))
			}
			if rank == 1 { // stays away until the group breaks
				_, err = g.Recv(ctx, tensor.Of([]byte{0}), pg.Envelope{Peer: 0})
			}
			_ = err
			_ = g.Close()
		})
	}
	ranks.Wait()
	// Output: pg: rank 1 (b) did not reach the monitored barrier within 2ms
}
