package pgtest

import (
	"context"
	"fmt"
	"testing"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// moveSizes are the element counts that verbs which only copy are tried with:
// none, one, odd, more than a frame, more than 1 MiB (of int32 and int64).
func moveSizes() []int { return []int{0, 1, 1021, 70_001, 140_001} }

// testBroadcast: everybody gets the root's tensor, of every dtype, from every
// root; several tensors go as one op.
func testBroadcast(t *testing.T, h Harness) {
	for worldSize := 1; worldSize <= h.MaxWorldSize; worldSize++ {
		w := newWorld(t, h, worldSize)
		w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
			for root := range worldSize {
				for i, d := range h.DTypes {
					if err := broadcastOne(ctx, g, root, d, 1021, seedOf(i, root, 0)); err != nil {
						return err
					}
				}
				for i, n := range moveSizes() {
					if err := broadcastOne(ctx, g, root, h.DTypes[i%len(h.DTypes)], n, seedOf(i, root, 1)); err != nil {
						return err
					}
				}
			}
			return nil
		})
	}
	if h.MaxWorldSize >= 3 {
		testBroadcastSeveral(t, h)
	}
}

func broadcastOne(ctx context.Context, g *pg.Group, root int, d tensor.DType, n int, seed uint64) error {
	x := tensor.New(d, n)
	if g.Rank() == root {
		Fill(x, seed)
	}
	if err := g.Broadcast(ctx, x, root); err != nil {
		return fmt.Errorf("root %d %v[%d]: %w", root, d, n, err)
	}
	if err := filled(x, seed); err != nil {
		return fmt.Errorf("root %d %v[%d]: %w", root, d, n, err)
	}
	return nil
}

func testBroadcastSeveral(t *testing.T, h Harness) {
	const root = 1
	w := newWorld(t, h, 3)
	d := h.DTypes[min(4, len(h.DTypes)-1)] // int64
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		op := &pg.Op{Kind: pg.KindBroadcast, Root: root}
		for i, n := range moveSizes() {
			if rank == root {
				op.In = append(op.In, input(d, n, seedOf(0, root, i)))
			}
			op.Out = append(op.Out, tensor.New(d, n))
		}
		if err := g.Do(ctx, op); err != nil {
			return err
		}
		for i := range moveSizes() {
			if err := filled(op.Out[i], seedOf(0, root, i)); err != nil {
				return fmt.Errorf("tensor %d: %w", i, err)
			}
		}
		return nil
	})
}

// slots makes one tensor per rank.
func slots(worldSize int, make func(slot int) tensor.Tensor) []tensor.Tensor {
	var ts []tensor.Tensor
	for slot := range worldSize {
		ts = append(ts, make(slot))
	}
	return ts
}

// filled tells whether t is what Fill writes. That repeats, so comparing takes
// little memory.
func filled(t tensor.Tensor, seed uint64) error {
	want := input(t.DType(), min(t.Len(), drawnElements), seed)
	return periodic(t.DType(), t.Bytes(), want.Bytes())
}

// filledSlots compares each tensor with what Fill writes for its slot.
func filledSlots(got []tensor.Tensor, seed func(slot int) uint64) error {
	for slot, t := range got {
		if err := filled(t, seed(slot)); err != nil {
			return fmt.Errorf("slot %d: %w", slot, err)
		}
	}
	return nil
}

// eachSize runs f on worlds of all sizes, for all sizes of tensors.
func eachSize(t *testing.T, h Harness, f func(ctx context.Context, g *pg.Group, d tensor.DType, n int) error) {
	t.Helper()
	for worldSize := 1; worldSize <= h.MaxWorldSize; worldSize++ {
		w := newWorld(t, h, worldSize)
		w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
			for i, n := range moveSizes() {
				d := h.DTypes[i%len(h.DTypes)]
				if err := f(ctx, g, d, n); err != nil {
					return fmt.Errorf("%v[%d]: %w", d, n, err)
				}
			}
			return nil
		})
	}
}

// testAllGather: everybody gets everybody's tensor, also when the input is this
// rank's slot of the output.
func testAllGather(t *testing.T, h Harness) {
	eachSize(t, h, func(ctx context.Context, g *pg.Group, d tensor.DType, n int) error {
		rank := g.Rank()
		seed := func(from int) uint64 { return seedOf(0, from, 0) }
		out := slots(g.Size(), func(int) tensor.Tensor { return tensor.New(d, n) })
		if err := g.AllGather(ctx, input(d, n, seed(rank)), out); err != nil {
			return err
		}
		if err := filledSlots(out, seed); err != nil {
			return err
		}
		out = slots(g.Size(), func(int) tensor.Tensor { return tensor.New(d, n) })
		Fill(out[rank], seed(rank))
		if err := g.AllGather(ctx, out[rank], out); err != nil {
			return err
		}
		return filledSlots(out, seed)
	})
}

// testGather: the root gets everybody's tensor.
func testGather(t *testing.T, h Harness) {
	eachSize(t, h, func(ctx context.Context, g *pg.Group, d tensor.DType, n int) error {
		for root := range g.Size() {
			seed := func(from int) uint64 { return seedOf(root, from, 0) }
			var out []tensor.Tensor
			if g.Rank() == root {
				out = slots(g.Size(), func(int) tensor.Tensor { return tensor.New(d, n) })
			}
			if err := g.Gather(ctx, input(d, n, seed(g.Rank())), out, root); err != nil {
				return err
			}
			if err := filledSlots(out, seed); err != nil {
				return fmt.Errorf("root %d: %w", root, err)
			}
		}
		return nil
	})
}

// testScatter: rank r gets slot r of the root.
func testScatter(t *testing.T, h Harness) {
	eachSize(t, h, func(ctx context.Context, g *pg.Group, d tensor.DType, n int) error {
		for root := range g.Size() {
			seed := func(slot int) uint64 { return seedOf(root, slot, 0) }
			var in []tensor.Tensor
			if g.Rank() == root {
				in = slots(g.Size(), func(slot int) tensor.Tensor { return input(d, n, seed(slot)) })
			}
			out := tensor.New(d, n)
			if err := g.Scatter(ctx, in, out, root); err != nil {
				return err
			}
			if err := filled(out, seed(g.Rank())); err != nil {
				return fmt.Errorf("root %d: %w", root, err)
			}
		}
		return nil
	})
}

// testAllToAll: slot r of rank s becomes slot s of rank r.
func testAllToAll(t *testing.T, h Harness) {
	eachSize(t, h, func(ctx context.Context, g *pg.Group, d tensor.DType, n int) error {
		rank := g.Rank()
		in := slots(g.Size(), func(to int) tensor.Tensor { return input(d, n, seedOf(0, rank, to)) })
		out := slots(g.Size(), func(int) tensor.Tensor { return tensor.New(d, n) })
		if err := g.AllToAll(ctx, in, out); err != nil {
			return err
		}
		return filledSlots(out, func(from int) uint64 { return seedOf(0, from, rank) })
	})
}

// testBarrier: nobody leaves before everybody has come.
func testBarrier(t *testing.T, h Harness) {
	const worldSize = 3
	w := newWorld(t, h, worldSize)
	works := make([]*pg.Work, worldSize)
	for rank := range worldSize - 1 {
		works[rank] = w.Groups[rank].BarrierAsync()
	}
	for rank := range worldSize - 1 {
		if works[rank].Finished() {
			t.Errorf("rank %d left the barrier before rank %d came: %v", rank, worldSize-1, works[rank].Err())
		}
	}
	works[worldSize-1] = w.Groups[worldSize-1].BarrierAsync()
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error { return works[rank].Wait(ctx) })
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		for range 20 {
			if err := g.Barrier(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}
