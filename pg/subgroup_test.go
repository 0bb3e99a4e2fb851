package pg_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/managedtest"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/tensor"
)

// sumOf adds up this rank's number over a group.
func sumOf(ctx context.Context, g *pg.Group, x int64) (int64, error) {
	v := []int64{x}
	err := g.AllReduce(ctx, tensor.Of(v), tensor.Sum)
	return v[0], err
}

// TestSubgroups: members reduce among themselves, with ranks of their own;
// others get -1 and ErrNotMember; ranks translate both ways; the world goes on.
func TestSubgroups(t *testing.T) {
	w := pgtest.MemoryWorld(t, 5, nil)
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		odd, err := g.NewGroup(ctx, []int{3, 1}, pg.GroupOptions{})
		if err != nil {
			return err
		}
		all, err := g.NewGroup(ctx, nil, pg.GroupOptions{Name: "everybody"})
		if err != nil {
			return err
		}
		if odd.GroupName() != "0" || all.GroupName() != "everybody" || odd.Parent() != g {
			return fmt.Errorf("names are %q and %q, want 0 and everybody", odd.GroupName(), all.GroupName())
		}
		if !slices.Equal(odd.Ranks(), []int{1, 3}) {
			return fmt.Errorf("ranks are %v, want [1 3]", odd.Ranks())
		}
		if r, err := odd.GroupRank(3); r != 1 || err != nil {
			return fmt.Errorf("rank 3 is %d there, want 1: %w", r, err)
		}
		if r, err := odd.GlobalRank(1); r != 3 || err != nil {
			return fmt.Errorf("its rank 1 is %d of the world, want 3: %w", r, err)
		}
		if _, err := odd.GroupRank(2); !errors.Is(err, pg.ErrNotMember) {
			return fmt.Errorf("rank 2 there: %w, want ErrNotMember", err)
		}
		if _, err := odd.GlobalRank(2); !errors.Is(err, pg.ErrInvalidOp) {
			return fmt.Errorf("its rank 2: %w, want ErrInvalidOp", err)
		}
		if rank%2 == 0 {
			if odd.Rank() != -1 || odd.Size() != -1 {
				return fmt.Errorf("rank %d of %d for one that is no member, want -1 of -1", odd.Rank(), odd.Size())
			}
			if err := odd.Barrier(ctx); !errors.Is(err, pg.ErrNotMember) {
				return fmt.Errorf("barrier of one that is no member: %w", err)
			}
		} else if sum, err := sumOf(ctx, odd, int64(rank)); sum != 4 || err != nil || odd.Rank() != rank/2 {
			return fmt.Errorf("sum %d at rank %d, want 4 at %d: %w", sum, odd.Rank(), rank/2, err)
		}
		if sum, err := sumOf(ctx, all, 1); sum != 5 || err != nil {
			return fmt.Errorf("sum of all %d, want 5: %w", sum, err)
		}
		if _, err := g.NewGroup(ctx, nil, pg.GroupOptions{Name: "everybody"}); !errors.Is(err, pg.ErrNameTaken) {
			return fmt.Errorf("a name twice: %w, want ErrNameTaken", err)
		}
		return g.Barrier(ctx)
	})
}

// TestSubgroupsSeveral: groups of neighbours, and a group of a group, several
// under way at once, while the world is too.
func TestSubgroupsSeveral(t *testing.T) {
	w := pgtest.MemoryWorld(t, 4, nil)
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		pair, all, err := g.NewSubgroups(ctx, 2, pg.GroupOptions{})
		if err != nil || len(all) != 2 || pair.Size() != 2 || pair.Rank() != rank%2 {
			return fmt.Errorf("%d subgroups, mine of %v: %w", len(all), pair, err)
		}
		self, err := pair.NewGroup(ctx, []int{1}, pg.GroupOptions{Name: "second"})
		if err != nil {
			return err
		}
		if want := fmt.Sprintf("%d/second", rank/2); self.GroupName() != want || self.Ranks()[0] != rank/2*2+1 {
			return fmt.Errorf("group of a group is %q of %v, want %q", self.GroupName(), self.Ranks(), want)
		}
		var pending []*pg.Work
		sums := make([][]int64, 3)
		for i, group := range []*pg.Group{g, pair, self} {
			sums[i] = []int64{1}
			if group.Rank() >= 0 {
				pending = append(pending, group.AllReduceAsync(tensor.Of(sums[i]), tensor.Sum))
			}
		}
		for _, work := range pending {
			if err := work.Wait(ctx); err != nil {
				return err
			}
		}
		if sums[0][0] != 4 || sums[1][0] != 2 || sums[2][0] != 1 {
			return fmt.Errorf("sums are %v, want 4, 2 and 1", sums)
		}
		return g.Barrier(ctx)
	})
}

// TestSubgroupsLocalSync: only members call, groups that do not overlap in any
// order, and names agree although ranks have made different numbers of groups.
func TestSubgroupsLocalSync(t *testing.T) {
	w := pgtest.MemoryWorld(t, 4, nil)
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		ranks := []int{rank / 2 * 2, rank/2*2 + 1}
		for round := range 1 + rank/2 {
			pair, err := g.NewGroup(ctx, ranks, pg.GroupOptions{LocalSync: true})
			if err != nil {
				return fmt.Errorf("round %d: %w", round, err)
			}
			if sum, err := sumOf(ctx, pair, int64(rank)); sum != int64(ranks[0]+ranks[1]) || err != nil {
				return fmt.Errorf("sum %d of %v: %w", sum, ranks, err)
			}
		}
		if err := g.Barrier(ctx); err != nil {
			return err
		}
		all, err := g.NewGroup(ctx, nil, pg.GroupOptions{})
		if err != nil || all.GroupName() != "0" {
			return fmt.Errorf("name of a group of all is not 0: %w", err)
		}
		return g.Barrier(ctx)
	})
}

// TestSubgroupsEndWithTheirParent: when the parent is configured anew, pending
// ops of its subgroups fail, later ones give ErrAborted, and names start again,
// so that a newcomer and the survivors agree.
func TestSubgroupsEndWithTheirParent(t *testing.T) {
	for name, wrap := range map[string]func(pg.Backend) pg.Backend{
		"plain":   nil,
		"swallow": func(b pg.Backend) pg.Backend { return pg.NewTimeout(pg.NewSwallow(b), pgtest.Bound) },
	} {
		t.Run(name, func(t *testing.T) {
			w := pgtest.MemoryWorld(t, 3, wrap)
			subs := make([]*pg.Group, 3)
			pending := make([]*pg.Work, 3)
			w.Each(func(ctx context.Context, rank int, g *pg.Group) (err error) {
				if _, err = g.NewGroup(ctx, []int{0}, pg.GroupOptions{}); err != nil {
					return err
				}
				subs[rank], err = g.NewGroup(ctx, []int{0, 2}, pg.GroupOptions{Name: "pair"})
				return err
			})
			pending[0] = subs[0].AllReduceAsync(tensor.New(tensor.Float32, 4), tensor.Sum)
			w.Next()
			survivors := []pgtest.Member{w.Members[0], w.Members[2]}
			w.Groups = []*pg.Group{w.Groups[0], w.Groups[2]}
			w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
				return g.Configure(ctx, w.Config(survivors, rank))
			})
			<-pending[0].Done()
			if err := pending[0].Err(); name == "plain" && !errors.Is(err, pg.ErrAborted) {
				t.Errorf("pending op of a subgroup whose parent moved on: %v, want ErrAborted", err)
			}
			for _, rank := range []int{0, 2} {
				if err := subs[rank].Barrier(t.Context()); !errors.Is(err, pg.ErrAborted) {
					t.Errorf("op of an old subgroup at rank %d: %v, want ErrAborted", rank, err)
				}
				if !subs[rank].Errored() {
					t.Errorf("old subgroup at rank %d is not broken", rank)
				}
			}
			w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
				again, err := g.NewGroup(ctx, nil, pg.GroupOptions{})
				if err != nil || again.GroupName() != "0" {
					return fmt.Errorf("first group of a new configuration is not called 0: %w", err)
				}
				if sum, err := sumOf(ctx, again, 1); sum != 2 || err != nil {
					return fmt.Errorf("its sum is %d: %w", sum, err)
				}
				return g.Barrier(ctx)
			})
		})
	}
}

// TestDestroy: a group is destroyed once, a name that is gone is unknown, and
// the parent takes its subgroups along.
func TestDestroy(t *testing.T) {
	w := pgtest.MemoryWorld(t, 2, nil)
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		one, err := g.NewGroup(ctx, nil, pg.GroupOptions{Name: "one"})
		if err != nil {
			return err
		}
		two, err := g.NewGroup(ctx, nil, pg.GroupOptions{Name: "two"})
		if err != nil {
			return err
		}
		if found, err := g.Subgroup("one"); found != one || err != nil {
			return fmt.Errorf("subgroup one is not found: %w", err)
		}
		if err := errors.Join(one.Barrier(ctx), one.Destroy()); err != nil {
			return err
		}
		if err := one.Destroy(); !errors.Is(err, pg.ErrUnknownGroup) {
			return fmt.Errorf("destroyed twice: %w, want ErrUnknownGroup", err)
		}
		if _, err := g.Subgroup("one"); !errors.Is(err, pg.ErrUnknownGroup) {
			return fmt.Errorf("name of a destroyed group: %w, want ErrUnknownGroup", err)
		}
		if err := one.Barrier(ctx); !errors.Is(err, pg.ErrClosed) {
			return fmt.Errorf("op of a destroyed group: %w, want ErrClosed", err)
		}
		if err := errors.Join(two.Barrier(ctx), g.Barrier(ctx), g.Destroy()); err != nil {
			return err
		}
		if err := two.Barrier(ctx); !errors.Is(err, pg.ErrAborted) {
			return fmt.Errorf("op of a subgroup of a destroyed group: %w, want ErrAborted", err)
		}
		if err := g.Destroy(); !errors.Is(err, pg.ErrUnknownGroup) {
			return fmt.Errorf("world destroyed twice: %w, want ErrUnknownGroup", err)
		}
		return nil
	})
}

// TestSubgroupRefused: bad ranks are named; ranks that mean different groups
// are all told.
func TestSubgroupRefused(t *testing.T) {
	w := pgtest.MemoryWorld(t, 3, nil)
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		for _, bad := range [][]int{{0, 3}, {-1}, {1, 1}} {
			if _, err := g.NewGroup(ctx, bad, pg.GroupOptions{}); !errors.Is(err, pg.ErrInvalidOp) {
				return fmt.Errorf("ranks %v: %w, want ErrInvalidOp", bad, err)
			}
		}
		if _, _, err := g.NewSubgroups(ctx, 2, pg.GroupOptions{}); !errors.Is(err, pg.ErrInvalidOp) {
			return fmt.Errorf("pairs of three: %w, want ErrInvalidOp", err)
		}
		_, err := g.NewGroup(ctx, []int{0, max(1, rank)}, pg.GroupOptions{})
		if !errors.Is(err, pg.ErrMismatch) {
			return fmt.Errorf("different ranks: %w, want ErrMismatch", err)
		}
		return g.Barrier(ctx)
	})
}

// TestSubgroupsOfManaged: ranks are those of the participants, also when a
// member below takes no part, who is then no member of any subgroup; a
// subgroup's errors are the manager's too.
func TestSubgroupsOfManaged(t *testing.T) {
	var managers []*managedtest.Manager
	w := pgtest.MemoryWorld(t, 3, func(b pg.Backend) pg.Backend {
		m := managedtest.New(3, len(managers), 0, 1, 2)
		managers = append(managers, m)
		return pg.NewManaged(b, m)
	})
	for _, m := range managers {
		m.Choose(1, 2)
	}
	w.Each(func(ctx context.Context, member int, g *pg.Group) error {
		both, err := g.NewGroup(ctx, nil, pg.GroupOptions{})
		if err != nil {
			return err
		}
		second, err := g.NewGroup(ctx, []int{1}, pg.GroupOptions{})
		if err != nil {
			return err
		}
		if both.Rank() != member-1 || (second.Rank() >= 0) != (member == 2) {
			return fmt.Errorf("member %d is rank %d and %d, want %d and %d", member, both.Rank(), second.Rank(), member-1, member-2)
		}
		if member == 0 {
			return g.Barrier(ctx)
		}
		if sum, err := sumOf(ctx, both, int64(member)); sum != 3 || err != nil {
			return fmt.Errorf("sum %d, want 3: %w", sum, err)
		}
		if err := g.Barrier(ctx); err != nil {
			return err
		}
		both.Abort(errors.New("given up"))
		err = both.Barrier(ctx)
		if err != nil || !managers[member].Errored(1) {
			return fmt.Errorf("error of a subgroup was not reported: %w", err)
		}
		return nil
	})
}
