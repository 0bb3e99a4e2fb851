package pg_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/tensor"
)

// inWorld runs f as every rank of a group of n, whose backends meet in memory.
func inWorld(n int, f func(ctx context.Context, g *pg.Group) error) {
	network := pgtest.NewMemory()
	members := make([]string, n)
	for rank := range members {
		members[rank] = fmt.Sprint("replica-", rank)
	}
	ctx := context.Background()
	var ranks sync.WaitGroup
	for rank := range n {
		ranks.Go(func() {
			g := pg.NewGroup(network.Backend())
			err := g.Configure(ctx, pg.Config{
				StoreAddress: "here", ReplicaIDs: members, Rank: rank, Cluster: "c", QuorumID: 1,
			})
			if err == nil {
				err = errors.Join(f(ctx, g), g.Barrier(ctx), g.Close())
			}
			if err != nil {
				fmt.Println(err)
			}
		})
	}
	ranks.Wait()
}

// Parts of uneven length change places.
func ExampleGroup_AllToAllSingle() {
	inWorld(2, func(ctx context.Context, g *pg.Group) error {
		in := [][]int64{{0, 1, 2}, {10, 11, 12}}[g.Rank()]
		splits := []pg.Splits{{In: []int{1, 2}, Out: []int{1, 2}}, {In: []int{2, 1}, Out: []int{2, 1}}}[g.Rank()]
		out := make([]int64, 3)
		if err := g.AllToAllSingle(ctx, tensor.Of(in), tensor.Of(out), splits); err != nil {
			return err
		}
		if g.Rank() == 0 {
			fmt.Println(out)
		}
		return nil
	})
	// Output: [0 10 11]
}

// A ring: each rank sends to the next and receives from the one before, as one
// batch, so that nobody waits for anybody to begin.
func ExampleGroup_BatchSendRecv() {
	inWorld(3, func(ctx context.Context, g *pg.Group) error {
		next, prev := (g.Rank()+1)%3, (g.Rank()+2)%3
		got := []int64{0}
		ops := []*pg.Op{
			pg.SendOp(tensor.Of([]int64{int64(g.Rank())}), pg.Envelope{Peer: next}),
			pg.RecvOp(tensor.Of(got), pg.Envelope{Peer: prev}),
		}
		if err := g.BatchSendRecv(ctx, ops); err != nil {
			return err
		}
		if g.Rank() == 0 {
			fmt.Println("rank 0 got", got[0], "from", ops[1].Source)
		}
		return nil
	})
	// Output: rank 0 got 2 from 2
}

// Pairs of neighbours sum up among themselves.
func ExampleGroup_NewSubgroups() {
	inWorld(4, func(ctx context.Context, g *pg.Group) error {
		pair, _, err := g.NewSubgroups(ctx, 2, pg.GroupOptions{})
		if err != nil {
			return err
		}
		x := []int64{int64(g.Rank())}
		if err := pair.AllReduce(ctx, tensor.Of(x), tensor.Sum); err != nil {
			return err
		}
		if g.Rank() == 3 {
			fmt.Println(pair.GroupName(), pair.Ranks(), x)
		}
		return nil
	})
	// Output: 1 [2 3] [5]
}

// A verb of one's own, of two ops: the longest list of any rank goes to all. Sizes and
// ranks are those of the Composed: under Managed others may take part in each step.
func ExampleGroup_Compose() {
	inWorld(3, func(ctx context.Context, g *pg.Group) error {
		mine := []int64{3, 1, 4}[:g.Rank()+1]
		longest := mine
		err := g.Compose(ctx, func(c *pg.Composed) error {
			lengths := make([]int64, c.Size())
			if err := c.AllGatherIntoTensor(ctx, tensor.Of([]int64{int64(len(mine))}), tensor.Of(lengths)); err != nil {
				return err
			}
			root := slices.Index(lengths, slices.Max(lengths))
			if root != c.Rank() {
				longest = make([]int64, lengths[root])
			}
			return c.Broadcast(ctx, tensor.Of(longest), root)
		})
		if g.Rank() == 0 {
			fmt.Println(longest)
		}
		return err
	})
	// Output: [3 1 4]
}
