package pgtest

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// seedOf makes inputs that differ by op, rank and slot.
func seedOf(op, rank, slot int) uint64 { return uint64(op)<<32 | uint64(rank)<<16 | uint64(slot) }

// input is a tensor that the given rank contributes.
func input(dtype tensor.DType, n int, seed uint64) tensor.Tensor {
	t := tensor.New(dtype, n)
	Fill(t, seed)
	return t
}

// pair is a dtype with a reduction that it takes.
type pair struct {
	dtype tensor.DType
	Reduction
}

func (h Harness) pairs(worldSize int) []pair {
	var all []pair
	for _, d := range h.DTypes {
		for _, o := range tensor.ReduceOps() {
			if d.Reduces(o) == nil {
				all = append(all, pair{d, Reduction{Op: o, Divisor: worldSize, Factor: 0.7}})
			}
		}
	}
	return all
}

func (p pair) op(k pg.Kind) pg.Op {
	op := pg.Op{Kind: k, Reduce: p.Op}
	if p.Op == tensor.PreMulSum {
		op.Factor = p.Factor
	}
	return op
}

// expect is the reference result of inputs made by make for every rank, or
// the first of it: inputs repeat after drawnElements, and so does the result.
// It is compared by periodic.
func (p pair) expect(worldSize int, make func(rank int) tensor.Tensor) []byte {
	inputs := [][]byte{}
	for rank := range worldSize {
		x := make(rank)
		inputs = append(inputs, x.Slice(0, min(x.Len(), drawnElements)).Bytes())
	}
	return Reference(p.dtype, p.Reduction, inputs)
}

// testReductions: every dtype and reduce op, at every world size, for no
// element, one and an odd number, in place and not, is the left fold in rank
// order, byte for byte, on every rank; an input that is not also the output
// stays as it was.
func testReductions(t *testing.T, h Harness) {
	for worldSize := 1; worldSize <= h.MaxWorldSize; worldSize++ {
		t.Run(fmt.Sprintf("world=%d", worldSize), func(t *testing.T) {
			w := newWorld(t, h, worldSize)
			pairs := h.pairs(worldSize)
			for _, n := range []int{0, 1, 1021} {
				want := make([][]byte, len(pairs))
				for i, p := range pairs {
					want[i] = p.expect(worldSize, func(rank int) tensor.Tensor { return input(p.dtype, n, seedOf(i, rank, 0)) })
				}
				w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
					for i, p := range pairs {
						if err := reduceBothWays(ctx, g, p, input(p.dtype, n, seedOf(i, rank, 0)), want[i]); err != nil {
							return fmt.Errorf("%v %v[%d]: %w", p.Op, p.dtype, n, err)
						}
					}
					return nil
				})
			}
		})
	}
}

func reduceBothWays(ctx context.Context, g *pg.Group, p pair, in tensor.Tensor, want []byte) error {
	before := slices.Clone(in.Bytes())
	out := tensor.New(in.DType(), in.Len())
	op := p.op(pg.KindAllReduce)
	op.In, op.Out = []tensor.Tensor{in}, []tensor.Tensor{out}
	if err := g.Do(ctx, &op); err != nil {
		return err
	}
	if err := periodic(p.dtype, out.Bytes(), want); err != nil {
		return fmt.Errorf("out of place: %w", err)
	}
	if !slices.Equal(in.Bytes(), before) {
		return fmt.Errorf("out of place: the input has changed")
	}
	op = p.op(pg.KindAllReduce)
	op.In, op.Out = []tensor.Tensor{in}, []tensor.Tensor{in}
	if err := g.Do(ctx, &op); err != nil {
		return err
	}
	if err := periodic(p.dtype, in.Bytes(), want); err != nil {
		return fmt.Errorf("in place: %w", err)
	}
	return nil
}

// testBigReductions: results of more than one frame (256 KiB) and of more than
// 1 MiB are as exact as small ones; a Divisor of the op's own is used.
func testBigReductions(t *testing.T, h Harness) {
	cases := []struct {
		dtype tensor.DType
		r     Reduction
		n     int
	}{
		{tensor.Float32, Reduction{Op: tensor.Sum}, 300_001},
		{tensor.Float32, Reduction{Op: tensor.Avg, Divisor: 7}, 65_536},
		{tensor.Float16, Reduction{Op: tensor.Sum}, 600_003},
		{tensor.BFloat16, Reduction{Op: tensor.Avg, Divisor: 3}, 131_073},
		{tensor.Float64, Reduction{Op: tensor.Max}, 140_001},
		{tensor.Uint8, Reduction{Op: tensor.BXor}, 1<<20 + 1},
	}
	for worldSize := 2; worldSize <= h.MaxWorldSize; worldSize++ {
		t.Run(fmt.Sprintf("world=%d", worldSize), func(t *testing.T) {
			w := newWorld(t, h, worldSize)
			for i, c := range cases {
				if !slices.Contains(h.DTypes, c.dtype) {
					continue
				}
				p := pair{c.dtype, c.r}
				want := p.expect(worldSize, func(rank int) tensor.Tensor { return input(c.dtype, c.n, seedOf(i, rank, 0)) })
				w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
					x := input(c.dtype, c.n, seedOf(i, rank, 0))
					op := pg.Op{Kind: pg.KindAllReduce, In: []tensor.Tensor{x}, Out: []tensor.Tensor{x}, Reduce: c.r.Op, Divisor: c.r.Divisor}
					if err := g.Do(ctx, &op); err != nil {
						return err
					}
					return periodic(c.dtype, x.Bytes(), want)
				})
			}
		})
	}
}

// testCoalesced: several tensors in one op, an empty one among them, are each
// reduced as if alone.
func testCoalesced(t *testing.T, h Harness) {
	sizes := []int{5, 0, 70_001, 1, 300}
	const worldSize = 3
	w := newWorld(t, h, worldSize)
	p := pair{tensor.Float32, Reduction{Op: tensor.Avg, Divisor: worldSize}}
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		var ts []tensor.Tensor
		for i, n := range sizes {
			ts = append(ts, input(p.dtype, n, seedOf(0, rank, i)))
		}
		if err := g.AllReduceCoalesced(ctx, ts, p.Op); err != nil {
			return err
		}
		for i, n := range sizes {
			want := p.expect(worldSize, func(rank int) tensor.Tensor { return input(p.dtype, n, seedOf(0, rank, i)) })
			if err := periodic(p.dtype, ts[i].Bytes(), want); err != nil {
				return fmt.Errorf("tensor %d: %w", i, err)
			}
		}
		return nil
	})
}

// testReduce: the root of a reduce gets the fold, whichever rank it is, and
// the tensors of the others stay as they were.
func testReduce(t *testing.T, h Harness) {
	for worldSize := 1; worldSize <= h.MaxWorldSize; worldSize++ {
		w := newWorld(t, h, worldSize)
		p := pair{tensor.Float32, Reduction{Op: tensor.Sum}}
		for _, n := range []int{0, 1, 1021, 90_001} {
			w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
				for root := range worldSize {
					make := func(rank int) tensor.Tensor { return input(p.dtype, n, seedOf(root, rank, 0)) }
					x := make(rank)
					if err := g.Reduce(ctx, x, p.Op, root); err != nil {
						return fmt.Errorf("root %d: %w", root, err)
					}
					want := make(rank).Bytes()
					if rank == root {
						want = p.expect(worldSize, make)
					}
					if err := periodic(p.dtype, x.Bytes(), want); err != nil {
						return fmt.Errorf("root %d of %d, %d elements: %w", root, worldSize, n, err)
					}
				}
				return nil
			})
		}
	}
}

// testReduceScatter: rank r gets the fold of everybody's slot r; slots may
// differ in size; all dtypes and reduce ops.
func testReduceScatter(t *testing.T, h Harness) {
	for worldSize := 1; worldSize <= h.MaxWorldSize; worldSize++ {
		w := newWorld(t, h, worldSize)
		for i, p := range h.pairs(worldSize) {
			check := func(size func(slot int) int) {
				t.Helper()
				w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
					in := make([]tensor.Tensor, worldSize)
					for slot := range in {
						in[slot] = input(p.dtype, size(slot), seedOf(i, rank, slot))
					}
					out := tensor.New(p.dtype, size(rank))
					op := p.op(pg.KindReduceScatter)
					op.In, op.Out = in, []tensor.Tensor{out}
					if err := g.Do(ctx, &op); err != nil {
						return fmt.Errorf("%v %v: %w", p.Op, p.dtype, err)
					}
					want := p.expect(worldSize, func(from int) tensor.Tensor {
						return input(p.dtype, size(rank), seedOf(i, from, rank))
					})
					if err := periodic(p.dtype, out.Bytes(), want); err != nil {
						return fmt.Errorf("%v %v: %w", p.Op, p.dtype, err)
					}
					return nil
				})
			}
			check(func(int) int { return 37 })
			if p.dtype == tensor.Float32 && p.Op == tensor.Sum {
				check(func(int) int { return 0 })
				check(func(int) int { return 80_001 })
				check(func(slot int) int { return slot * 11 })
			}
		}
	}
}
