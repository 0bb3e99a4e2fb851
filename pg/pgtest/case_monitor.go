package pgtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/dist"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// testMonitoredBarrier: all pass when all come; when some do not, rank 0 says
// who (the first, or all of them), the others fail too, and a new configuration
// works.
func testMonitoredBarrier(t *testing.T, h Harness) {
	const world = 4
	w := newWorld(t, h, world)
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		for range 3 {
			if err := dist.MonitoredBarrier(ctx, g, dist.MonitorOptions{}); err != nil {
				return err
			}
		}
		return nil
	})
	for _, all := range []bool{false, true} {
		o := dist.MonitorOptions{Timeout: 100 * time.Millisecond, WaitAll: all}
		want := []int{1}
		if all {
			want = []int{1, 3}
		}
		w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
			if rank == 1 || rank == 3 {
				return nil
			}
			err := dist.MonitoredBarrier(ctx, g, o)
			if rank != 0 {
				if err == nil {
					return errors.New("passed a monitored barrier that others never reached")
				}
				return nil
			}
			missing, ok := errors.AsType[*dist.BarrierError](err)
			if !ok || !slices.Equal(missing.Missing, want) || !errors.Is(err, context.DeadlineExceeded) {
				return fmt.Errorf("wait-all %v: %w, want missing ranks %v", all, err, want)
			}
			return nil
		})
		w.Configure(w.Members...)
		works(w)
	}
}

// testBatches: sends and receives of one batch do not wait for one another,
// collectives of one batch run in order, and an op that is malformed keeps the
// whole batch from starting.
func testBatches(t *testing.T, h Harness) {
	const world = 3
	w := newWorld(t, h, world)
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		next, prev := (rank+1)%world, (rank+world-1)%world
		for _, n := range []int{0, 1, 70_001} {
			x, y := input(tensor.Float32, n, seedOf(n, rank, 0)), tensor.New(tensor.Float32, n)
			ops := []*pg.Op{
				pg.SendOp(x, pg.Envelope{Peer: next, Tag: 3}),
				pg.RecvOp(y, pg.Envelope{Peer: pg.AnySource, Tag: 3}),
			}
			if err := g.BatchSendRecv(ctx, ops); err != nil {
				return err
			}
			if ops[1].Source != prev {
				return fmt.Errorf("message from rank %d, want %d", ops[1].Source, prev)
			}
			if err := same(tensor.Float32, y.Bytes(), input(tensor.Float32, n, seedOf(n, prev, 0)).Bytes()); err != nil {
				return err
			}
		}
		one := []int64{int64(rank)}
		batch := []*pg.Op{
			{Kind: pg.KindAllReduce, In: []tensor.Tensor{tensor.Of(one)}, Out: []tensor.Tensor{tensor.Of(one)}},
			{Kind: pg.KindAllReduce, In: []tensor.Tensor{tensor.Of(one)}, Out: []tensor.Tensor{tensor.Of(one)}, Reduce: tensor.Max},
		}
		work := g.BatchAsync(batch)
		if err := work.Wait(ctx); err != nil || one[0] != 3 || len(work.Result()) != 2 {
			return fmt.Errorf("chained batch gave %v: %w", one, err)
		}
		bad := []*pg.Op{{Kind: pg.KindBarrier}, {Kind: pg.KindBroadcast, Root: world}}
		if err := g.Batch(ctx, bad); !errors.Is(err, pg.ErrInvalidOp) {
			return fmt.Errorf("batch with a malformed op: %w, want ErrInvalidOp", err)
		}
		return g.Barrier(ctx)
	})
}

// testUneven: tensors of different shapes come back in their own.
func testUneven(t *testing.T, h Harness) {
	for world := 1; world <= h.MaxWorldSize; world++ {
		w := newWorld(t, h, world)
		w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
			for i, d := range h.DTypes {
				make := func(r int) tensor.Tensor {
					x := tensor.New(d, (r+i)%4, 1+r)
					Fill(x, seedOf(i, r, 0))
					return x
				}
				got, err := dist.AllGatherUneven(ctx, g, make(rank))
				if err != nil {
					return err
				}
				for r, x := range got {
					if !slices.Equal(x.Shape(), make(r).Shape()) {
						return fmt.Errorf("shape of rank %d is %v, want %v", r, x.Shape(), make(r).Shape())
					}
				}
				if err := filledSlots(got, func(r int) uint64 { return seedOf(i, r, 0) }); err != nil {
					return fmt.Errorf("%v: %w", d, err)
				}
			}
			if world == 1 {
				return nil
			}
			_, err := dist.AllGatherUneven(ctx, g, tensor.New(h.DTypes[0], slices.Repeat([]int{1}, 1+rank%2)...))
			if !errors.Is(err, pg.ErrMismatch) {
				return fmt.Errorf("different numbers of dimensions: %w, want ErrMismatch", err)
			}
			return g.Barrier(ctx)
		})
	}
}

// testMulti: verbs over several tensors of each rank, against the same over one
// group whose ranks have one each.
func testMulti(t *testing.T, h Harness) {
	const world, each = 3, 2
	w := newWorld(t, h, world)
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		fresh := func() (xs [][]int64) {
			for j := range each {
				xs = append(xs, []int64{int64(rank*each + j), 1})
			}
			return xs
		}
		x := fresh()
		if err := gave(dist.ReduceMulti(ctx, g, tensorsOf(x), tensor.Sum, dist.RootTensor{Root: 1, Tensor: 1}), x[0], fresh()[0]); err != nil {
			return err
		}
		want := fresh()[1]
		if rank == 1 {
			want = []int64{15, 6}
		}
		if err := gave(nil, x[1], want); err != nil {
			return err
		}
		x = fresh()
		err := dist.BroadcastMulti(ctx, g, tensorsOf(x), dist.RootTensor{Root: 2, Tensor: 1})
		if err := gave(err, x, [][]int64{{5, 1}, {5, 1}}); err != nil {
			return err
		}
		mean := [][]float32{{float32(rank)}, {float32(rank + 3)}}
		err = dist.AllReduceMultiAsync(g, tensorsOf(mean), tensor.Avg).Wait(ctx)
		if err := gave(err, mean, [][]float32{{2.5}, {2.5}}); err != nil {
			return err
		}
		return multiGathers(ctx, g, each)
	})
}

func multiGathers(ctx context.Context, g *pg.Group, each int) error {
	world, rank := g.Size(), g.Rank()
	in := [][]int64{{int64(rank * 2)}, {int64(rank*2 + 1)}}
	lists := [][][]int64{}
	var out [][]tensor.Tensor
	for range each {
		list := cutBy(make([]int64, world*each), slices.Repeat([]int{1}, world*each))
		lists = append(lists, list)
		out = append(out, tensorsOf(list))
	}
	want := cutBy(arange(0, world*each), slices.Repeat([]int{1}, world*each))
	err := dist.AllGatherMulti(ctx, g, tensorsOf(in), out)
	if err := gave(err, lists, [][][]int64{want, want}); err != nil {
		return err
	}
	got := [][]int64{{0}, {0}}
	err = dist.ReduceScatterMulti(ctx, g, out, tensorsOf(got), tensor.Sum)
	n := int64(world * each) // every list of every rank has the same numbers
	return gave(err, got, [][]int64{{n * int64(rank*each)}, {n * int64(rank*each+1)}})
}
