package pg_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/dummy"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/tensor"
)

// TestFlatRefused: what does not fit into one tensor is refused by numbers, on
// the rank that calls, and the group goes on; so is a call before Configure, or
// after Close, like that of any other verb.
func TestFlatRefused(t *testing.T) {
	w := pgtest.MemoryWorld(t, 2, nil)
	f := func(shape ...int) tensor.Tensor { return tensor.New(tensor.Float32, shape...) }
	strided, err := f(8).AsStrided([]int{4}, []int{2})
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		call func(ctx context.Context, g *pg.Group) error
		says string
	}{
		"gather": {func(ctx context.Context, g *pg.Group) error { return g.AllGatherIntoTensor(ctx, f(2), f(5)) }, "output has 5 elements, want 4"},
		"scatter": {func(ctx context.Context, g *pg.Group) error {
			return g.ReduceScatterTensor(ctx, f(5), f(2), tensor.Sum)
		}, "input has 5 elements, want 4"},
		"odd rows": {func(ctx context.Context, g *pg.Group) error {
			return g.AllToAllSingle(ctx, f(3, 2), f(3, 2), pg.Splits{})
		}, "3 rows of input do not divide by 2"},
		"few splits": {func(ctx context.Context, g *pg.Group) error {
			return g.AllToAllSingle(ctx, f(4), f(4), pg.Splits{In: []int{4}})
		}, "1 splits of input, want 2"},
		"short splits": {func(ctx context.Context, g *pg.Group) error {
			return g.AllToAllSingle(ctx, f(4), f(4), pg.Splits{Out: []int{1, 2}})
		}, "are 3 rows, it has 4"},
		"long splits": {func(ctx context.Context, g *pg.Group) error {
			return g.AllToAllSingle(ctx, f(4), f(4), pg.Splits{In: []int{-1, 5}})
		}, "splits [-1 5] of input"},
		"strided":   {func(ctx context.Context, g *pg.Group) error { return g.AllGatherIntoTensor(ctx, f(2), strided) }, "want a contiguous tensor"},
		"no tensor": {func(ctx context.Context, g *pg.Group) error { return g.AllGatherIntoTensor(ctx, f(2), tensor.Tensor{}) }, "all-gather"},
		"overlap": {func(ctx context.Context, g *pg.Group) error {
			x := f(6)
			return g.AllToAllSingle(ctx, x.Slice(0, 4), x.Slice(2, 6), pg.Splits{})
		}, "overlap in memory"},
		"other's slot": {func(ctx context.Context, g *pg.Group) error {
			x, other := f(4), 2-2*g.Rank()
			return g.AllGatherIntoTensor(ctx, x.Slice(other, other+2), x)
		}, "overlap in memory"},
		"empty batch": {func(ctx context.Context, g *pg.Group) error { return g.Batch(ctx, nil) }, "batch of 0 ops"},
		"collective among messages": {func(ctx context.Context, g *pg.Group) error {
			return g.BatchSendRecv(ctx, []*pg.Op{{Kind: pg.KindBarrier}})
		}, "no send or receive"},
		"list of another length": {func(ctx context.Context, g *pg.Group) error {
			return g.AllGatherCoalesced(ctx, []tensor.Tensor{f(1)}, [][]tensor.Tensor{{f(1)}, {}})
		}, "0 outputs for rank 1, want 1"},
	}
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		for name, c := range cases {
			if err := c.call(ctx, g); !errors.Is(err, pg.ErrInvalidOp) || !strings.Contains(err.Error(), c.says) {
				return fmt.Errorf("%s: %w, want ErrInvalidOp that says %q", name, err, c.says)
			}
		}
		return g.Barrier(ctx)
	})
	for name, b := range map[string]pg.Backend{"dummy": dummy.New(), "stub": &stub{}} {
		g := pg.NewGroup(b)
		if err := g.AllGatherIntoTensor(t.Context(), f(2), f(2)); !errors.Is(err, pg.ErrUnconfigured) {
			t.Errorf("%s before Configure: %v, want ErrUnconfigured", name, err)
		}
	}
	d := pg.NewGroup(dummy.New())
	if err := errors.Join(d.Close(), d.AllGatherIntoTensor(t.Context(), f(2), f(2))); !errors.Is(err, pg.ErrClosed) {
		t.Errorf("after Close: %v, want ErrClosed", err)
	}
}

// TestWorkResult: a Work tells the outputs once it is done, a verb into one
// tensor that tensor.
func TestWorkResult(t *testing.T) {
	w := pgtest.MemoryWorld(t, 2, nil)
	first := w.Groups[0].AllGatherIntoTensorAsync(tensor.Of([]int64{1}), tensor.Of(make([]int64, 2)))
	if got := first.Result(); got != nil {
		t.Errorf("result of a pending op is %v", got)
	}
	second := w.Groups[1].AllGatherIntoTensorAsync(tensor.Of([]int64{2}), tensor.Of(make([]int64, 2)))
	for _, work := range []*pg.Work{first, second} {
		if err := work.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := work.Result()
		if len(got) != 1 || fmt.Sprint(tensor.Slice[int64](got[0])) != "[1 2]" {
			t.Errorf("result is %v, want one tensor of 1 and 2", got)
		}
	}
	if got := w.Groups[0].AllReduceAsync(tensor.Tensor{}, tensor.Sum).Result(); got != nil {
		t.Errorf("result of a failed op is %v", got)
	}
}
