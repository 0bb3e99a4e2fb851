package pgtest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/skerry-ft/skerry/dist"
	"github.com/skerry-ft/skerry/dist/object"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// The examples that the documentation of torch.distributed 2.1 (and, for the
// coalesced all-gather, its source) prints, with the outputs printed there.
//
// Errata, where the documentation contradicts itself:
//   - all_gather_multigpu and reduce_scatter_multigpu place tensor j of rank k
//     at [k * world_size + j]; with m tensors per rank the list has world_size
//     * m places, so it is k * m + j.
//   - all_to_all_single and all_to_all with complex numbers make their output of
//     int64; it is complex.
//   - reduce_scatter_tensor and all_gather_into_tensor are said to be missing
//     in Gloo, and AVG and PREMUL_SUM to be NCCL's alone: here the CPU has them.
//   - AVG is said to divide before it sums; that rounds more often and can lose
//     small numbers. Here the sum is divided, once.
//   - MAX, MIN and PRODUCT are said not to be there for complex tensors; a
//     product of complex numbers is well defined, and is.
//   - get_rank's ranks are said to go from 0 to world_size; the last is one less.
//   - Store.num_keys should return 2 after one set; that counts a key of
//     torch's own. Package store counts what was set.
//   - Store.delete_key's example calls set with a key and no value.

// seedExample is one example: it runs at every rank of a world of its size.
type seedExample struct {
	name  string
	world int
	run   func(ctx context.Context, rank int, g *pg.Group) error
}

// testSeeds: the examples of torch.distributed give the outputs printed there.
func testSeeds(t *testing.T, h Harness) {
	for _, e := range slices.Concat(seedReductions(), seedGathers(), seedMoves(), seedObjects()) {
		t.Run(e.name, func(t *testing.T) {
			w := newWorld(t, h, e.world)
			w.Each(e.run)
		})
	}
}

// arange is n numbers from first.
func arange(first, n int) []int64 {
	x := make([]int64, n)
	for i := range x {
		x[i] = int64(first + i)
	}
	return x
}

// carange is n complex numbers k+kj from first.
func carange(first, n int) []complex64 {
	x := make([]complex64, n)
	for i := range x {
		x[i] = complex(float32(first+i), float32(first+i))
	}
	return x
}

// gave compares what a verb gave with what is printed.
func gave(err error, got, want any) error {
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(got, want) {
		return fmt.Errorf("got %v, want %v", got, want)
	}
	return nil
}

func seedReductions() []seedExample {
	return []seedExample{
		{"all_reduce", 2, func(ctx context.Context, rank int, g *pg.Group) error {
			x := arange(1+2*rank, 2)
			return gave(g.AllReduce(ctx, tensor.Of(x), tensor.Sum), x, []int64{4, 6})
		}},
		{"all_reduce complex", 2, func(ctx context.Context, rank int, g *pg.Group) error {
			x := carange(1+2*rank, 2)
			return gave(g.AllReduce(ctx, tensor.Of(x), tensor.Sum), x, []complex64{4 + 4i, 6 + 6i})
		}},
		{"reduce_scatter_tensor", 2, func(ctx context.Context, rank int, g *pg.Group) error {
			want := [][]int64{{0, 2}, {4, 6}}[rank]
			out := make([]int64, 2)
			if err := gave(g.ReduceScatterTensor(ctx, tensor.Of(arange(0, 4)), tensor.Of(out), tensor.Sum), out, want); err != nil {
				return err
			}
			stack, err := tensor.Of(arange(0, 4)).Reshape(2, 2)
			clear(out)
			return gave(errors.Join(err, g.ReduceScatterTensor(ctx, stack, tensor.Of(out), tensor.Sum)), out, want)
		}},
		{"all_reduce_multigpu", 2, func(ctx context.Context, rank int, g *pg.Group) error {
			values := make([][]float32, 8)
			tensors := make([]tensor.Tensor, 8)
			for i := range values {
				values[i] = []float32{1}
				tensors[i] = tensor.Of(values[i])
			}
			if err := dist.AllReduceMulti(ctx, g, tensors, tensor.Sum); err != nil {
				return err
			}
			for i := range values {
				if values[i][0] != 16 {
					return fmt.Errorf("tensor %d is %v, want 16", i, values[i][0])
				}
			}
			return nil
		}},
	}
}

func seedGathers() []seedExample {
	return []seedExample{
		{"all_gather", 2, func(ctx context.Context, rank int, g *pg.Group) error {
			a, b := make([]int64, 2), make([]int64, 2)
			err := g.AllGather(ctx, tensor.Of(arange(1+2*rank, 2)), []tensor.Tensor{tensor.Of(a), tensor.Of(b)})
			return gave(err, [][]int64{a, b}, [][]int64{{1, 2}, {3, 4}})
		}},
		{"all_gather complex", 2, func(ctx context.Context, rank int, g *pg.Group) error {
			a, b := make([]complex64, 2), make([]complex64, 2)
			err := g.AllGather(ctx, tensor.Of(carange(1+2*rank, 2)), []tensor.Tensor{tensor.Of(a), tensor.Of(b)})
			return gave(err, [][]complex64{a, b}, [][]complex64{{1 + 1i, 2 + 2i}, {3 + 3i, 4 + 4i}})
		}},
		{"all_gather_into_tensor", 2, func(ctx context.Context, rank int, g *pg.Group) error {
			out := make([]int64, 4)
			in := tensor.Of(arange(1+2*rank, 2))
			if err := gave(g.AllGatherIntoTensor(ctx, in, tensor.Of(out)), out, []int64{1, 2, 3, 4}); err != nil {
				return err
			}
			clear(out)
			stack, err := tensor.Of(out).Reshape(2, 2)
			return gave(errors.Join(err, g.AllGatherIntoTensor(ctx, in, stack)), out, []int64{1, 2, 3, 4})
		}},
		{"all_gather_coalesced", 2, func(ctx context.Context, rank int, g *pg.Group) error {
			in := [][][]int64{{{1, 1, 1, 1}, {2}, {3, 3}}, {{3, 3, 3, 3}, {5}, {1, 1}}}
			got := [][][]int64{{{-1, -1, -1, -1}, {-1}, {-1, -1}}, {{-1, -1, -1, -1}, {-1}, {-1, -1}}}
			out := [][]tensor.Tensor{tensorsOf(got[0]), tensorsOf(got[1])}
			return gave(g.AllGatherCoalesced(ctx, tensorsOf(in[rank]), out), got, in)
		}},
		{"scatter", 2, func(ctx context.Context, rank int, g *pg.Group) error {
			out := make([]float32, 2)
			var list []tensor.Tensor
			if rank == 0 {
				list = []tensor.Tensor{tensor.Of([]float32{1, 1}), tensor.Of([]float32{5, 5})}
			}
			return gave(g.Scatter(ctx, list, tensor.Of(out), 0), out, [][]float32{{1, 1}, {5, 5}}[rank])
		}},
	}
}

func tensorsOf[T tensor.Element](xs [][]T) []tensor.Tensor {
	var ts []tensor.Tensor
	for _, x := range xs {
		ts = append(ts, tensor.Of(x))
	}
	return ts
}

// cutBy is x in parts of the given lengths.
func cutBy[T any](x []T, lengths []int) [][]T {
	var parts [][]T
	for _, n := range lengths {
		parts = append(parts, x[:n:n])
		x = x[n:]
	}
	return parts
}

// The uneven example of all_to_all_single and all_to_all.
func unevenExample() (in, want [][]int64, inSplits, outSplits [][]int) {
	in = [][]int64{arange(0, 6), arange(10, 9), arange(20, 5), arange(30, 7)}
	inSplits = [][]int{{2, 2, 1, 1}, {3, 2, 2, 2}, {2, 1, 1, 1}, {2, 2, 2, 1}}
	outSplits = [][]int{{2, 3, 2, 2}, {2, 2, 1, 2}, {1, 2, 1, 2}, {1, 2, 1, 1}}
	want = [][]int64{
		{0, 1, 10, 11, 12, 20, 21, 30, 31}, {2, 3, 13, 14, 22, 32, 33}, {4, 15, 16, 23, 34, 35}, {5, 17, 18, 24, 36},
	}
	return in, want, inSplits, outSplits
}

func seedMoves() []seedExample {
	even := func(rank int) []int64 {
		return []int64{int64(rank), int64(4 + rank), int64(8 + rank), int64(12 + rank)}
	}
	ones := []int{1, 1, 1, 1}
	return []seedExample{
		{"all_to_all_single", 4, func(ctx context.Context, rank int, g *pg.Group) error {
			out := make([]int64, 4)
			return gave(g.AllToAllSingle(ctx, tensor.Of(arange(4*rank, 4)), tensor.Of(out), pg.Splits{}), out, even(rank))
		}},
		{"all_to_all_single uneven", 4, func(ctx context.Context, rank int, g *pg.Group) error {
			in, want, inSplits, outSplits := unevenExample()
			out := make([]int64, len(want[rank]))
			splits := pg.Splits{In: inSplits[rank], Out: outSplits[rank]}
			return gave(g.AllToAllSingle(ctx, tensor.Of(in[rank]), tensor.Of(out), splits), out, want[rank])
		}},
		{"all_to_all_single complex", 4, func(ctx context.Context, rank int, g *pg.Group) error {
			out, want := make([]complex64, 4), make([]complex64, 4)
			for i := range want {
				want[i] = carange(1+4*i+rank, 1)[0]
			}
			return gave(g.AllToAllSingle(ctx, tensor.Of(carange(1+4*rank, 4)), tensor.Of(out), pg.Splits{}), out, want)
		}},
		{"all_to_all", 4, func(ctx context.Context, rank int, g *pg.Group) error {
			out := make([]int64, 4)
			err := g.AllToAll(ctx, tensorsOf(cutBy(arange(4*rank, 4), ones)), tensorsOf(cutBy(out, ones)))
			return gave(err, out, even(rank))
		}},
		{"all_to_all uneven", 4, func(ctx context.Context, rank int, g *pg.Group) error {
			in, want, inSplits, outSplits := unevenExample()
			out := make([]int64, len(want[rank]))
			err := g.AllToAll(ctx, tensorsOf(cutBy(in[rank], inSplits[rank])), tensorsOf(cutBy(out, outSplits[rank])))
			return gave(err, out, want[rank])
		}},
		{"all_to_all complex", 4, func(ctx context.Context, rank int, g *pg.Group) error {
			out, want := make([]complex64, 4), make([]complex64, 4)
			for i := range want {
				want[i] = carange(1+4*i+rank, 1)[0]
			}
			err := g.AllToAll(ctx, tensorsOf(cutBy(carange(1+4*rank, 4), ones)), tensorsOf(cutBy(out, ones)))
			return gave(err, out, want)
		}},
		{"all_to_all as scatters", 4, func(ctx context.Context, rank int, g *pg.Group) error {
			// "Essentially, it is similar to following operation"
			out := make([]int64, 4)
			for root, slot := range tensorsOf(cutBy(out, ones)) {
				var list []tensor.Tensor
				if root == rank {
					list = tensorsOf(cutBy(arange(4*rank, 4), ones))
				}
				if err := g.Scatter(ctx, list, slot, root); err != nil {
					return err
				}
			}
			return gave(nil, out, even(rank))
		}},
		{"batch_isend_irecv", 2, func(ctx context.Context, rank int, g *pg.Group) error {
			// As printed, torch.arange(2) + 2 * rank, to the next rank.
			got := make([]int64, 2)
			err := g.BatchSendRecv(ctx, []*pg.Op{
				pg.SendOp(tensor.Of(arange(2*rank, 2)), pg.Envelope{Peer: (rank + 1) % 2}),
				pg.RecvOp(tensor.Of(got), pg.Envelope{Peer: (rank + 1) % 2}),
			})
			return gave(err, got, [][]int64{{2, 3}, {0, 1}}[rank])
		}},
	}
}

func seedObjects() []seedExample {
	objects := []any{"foo", 12, map[int]int{1: 2}}
	return []seedExample{
		{"broadcast_object_list", 3, func(ctx context.Context, rank int, g *pg.Group) error {
			list := []any{nil, nil, nil}
			if rank == 0 {
				copy(list, objects)
			}
			return gave(object.Broadcast(ctx, g, list, 0), list, objects)
		}},
		{"all_gather_object", 3, func(ctx context.Context, rank int, g *pg.Group) error {
			got, err := object.AllGather(ctx, g, objects[rank])
			return gave(err, got, objects)
		}},
		{"gather_object", 3, func(ctx context.Context, rank int, g *pg.Group) error {
			got, err := object.Gather(ctx, g, objects[rank], 0)
			want := []any(nil)
			if rank == 0 {
				want = objects
			}
			return gave(err, got, want)
		}},
		{"scatter_object_list", 3, func(ctx context.Context, rank int, g *pg.Group) error {
			var list []any
			if rank == 0 {
				list = objects
			}
			got, err := object.Scatter(ctx, g, list, 0)
			return gave(err, got, objects[rank])
		}},
	}
}
