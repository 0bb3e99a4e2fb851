package pgtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// testSubgroups: overlapping subgroups, one of them of a subgroup, work beside
// their parent and one another; ranks that are not members are told so; they
// all end when the parent is configured anew, and names start again.
func testSubgroups(t *testing.T, h Harness) {
	const world = 4
	w := newWorld(t, h, world)
	for round := range 2 {
		olds := make([]*pg.Group, world)
		w.Each(func(ctx context.Context, rank int, g *pg.Group) (err error) {
			olds[rank], err = subgroupsAtWork(ctx, rank, g)
			return err
		})
		w.Next()
		groups := w.Groups
		w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
			return groups[rank].Configure(ctx, w.Config(w.Members, rank))
		})
		for rank, old := range olds {
			if err := old.Err(); !errors.Is(err, pg.ErrAborted) && !errors.Is(err, pg.ErrNotMember) {
				t.Errorf("round %d: subgroup of rank %d after its parent moved on: %v, want ErrAborted", round, rank, err)
			}
		}
	}
}

// subgroupsAtWork makes some subgroups, uses them all at once, and returns one.
func subgroupsAtWork(ctx context.Context, rank int, g *pg.Group) (*pg.Group, error) {
	pair, all, err := g.NewSubgroups(ctx, 2, pg.GroupOptions{})
	if err != nil {
		return nil, err
	}
	if names := []string{all[0].GroupName(), all[1].GroupName()}; !slices.Equal(names, []string{"0", "1"}) {
		return nil, fmt.Errorf("names are %v, want 0 and 1", names)
	}
	triple, err := g.NewGroup(ctx, []int{0, 1, 3}, pg.GroupOptions{Name: "triple"})
	if err != nil {
		return nil, err
	}
	alone, err := pair.NewGroup(ctx, []int{1}, pg.GroupOptions{})
	if err != nil {
		return nil, err
	}
	var pending []*pg.Work
	var sums [][]int64
	var wants []int64
	for _, c := range []struct {
		group *pg.Group
		want  int64
	}{{g, 6}, {pair, int64(4*(rank/2) + 1)}, {triple, 4}, {alone, int64(rank/2*2 + 1)}} {
		if c.group.Rank() < 0 {
			if err := c.group.Barrier(ctx); !errors.Is(err, pg.ErrNotMember) {
				return nil, fmt.Errorf("barrier of %q at rank %d: %w, want ErrNotMember", c.group.GroupName(), rank, err)
			}
			continue
		}
		for range 2 {
			sums, wants = append(sums, []int64{int64(rank)}), append(wants, c.want)
			pending = append(pending, c.group.AllReduceAsync(tensor.Of(sums[len(sums)-1]), tensor.Sum))
		}
	}
	if err := waitAll(ctx, pending); err != nil {
		return nil, err
	}
	for i, sum := range sums {
		if sum[0] != wants[i] {
			return nil, fmt.Errorf("sum %d is %d, want %d", i, sum[0], wants[i])
		}
	}
	return triple, g.Barrier(ctx)
}

// testSubgroupFails: an error in a subgroup names ranks of the subgroup, breaks
// it on all its members, and nothing else.
func testSubgroupFails(t *testing.T, h Harness) {
	const world = 3
	w := newWorld(t, h, world)
	subs := make([]*pg.Group, world)
	w.Each(func(ctx context.Context, rank int, g *pg.Group) (err error) {
		subs[rank], err = g.NewGroup(ctx, []int{1, 2}, pg.GroupOptions{})
		return err
	})
	cause := errors.New("given up")
	pending := subs[1].AllReduceAsync(tensor.New(tensor.Float32, 4), tensor.Sum)
	subs[2].Abort(cause)
	ended(t, []*pg.Work{pending})
	isBroken(t, subs[2], cause)
	isBroken(t, subs[1], nil)
	works(w)
}
