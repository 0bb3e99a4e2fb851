package dist

import (
	"context"
	"fmt"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// The verbs here take several tensors of each rank that count as if each were
// a rank's own, as torch's multi-GPU functions do: rank r's tensor j stands at
// r*k+j of all, k being the number of tensors per rank, equal on all ranks.
// Sums first fold each rank's tensors in their order, then the ranks in theirs.
// All tensors lie on the CPU and have one dtype and length. Avg divides by the number of
// tensors of all ranks: under pg.Managed of those that take part when the op runs.

// AllReduceMulti reduces all tensors of all ranks into each of them.
func AllReduceMulti(ctx context.Context, g *pg.Group, ts []tensor.Tensor, op tensor.ReduceOp) error {
	first, err := foldLocal(ts, op, pg.KindAllReduce)
	if err != nil {
		return err
	}
	if err := g.Do(ctx, first); err != nil {
		return err
	}
	return spread(ts, 0)
}

// AllReduceMultiAsync starts AllReduceMulti; this rank's own tensors are folded
// before it returns.
func AllReduceMultiAsync(g *pg.Group, ts []tensor.Tensor, op tensor.ReduceOp) *pg.Work {
	first, err := foldLocal(ts, op, pg.KindAllReduce)
	if err != nil {
		return pg.Finished(&pg.Op{Kind: pg.KindAllReduce, In: ts, Out: ts}, err)
	}
	w := g.Submit(first)
	w.Then(func(err error) {
		if err == nil {
			_ = spread(ts, 0) // sizes were checked
		}
	})
	return w
}

// ReduceMulti reduces all tensors of all ranks into ts[at.Tensor] of at.Root. All
// others stay as they are.
func ReduceMulti(ctx context.Context, g *pg.Group, ts []tensor.Tensor, op tensor.ReduceOp, at RootTensor) error {
	if err := at.check(ts); err != nil {
		return err
	}
	first, err := foldLocal(ts, op, pg.KindReduce)
	if err != nil {
		return err
	}
	first.Root, first.Out = at.Root, nil
	if g.Resizable() || g.Rank() == at.Root { // pg.Managed takes it away where it is not the root
		first.Out = []tensor.Tensor{ts[at.Tensor]}
	}
	return g.Do(ctx, first)
}

// RootTensor names one tensor of one rank.
type RootTensor struct {
	Root   int // rank
	Tensor int // index
}

func (at RootTensor) check(ts []tensor.Tensor) error {
	if at.Tensor < 0 || at.Tensor >= len(ts) {
		return fmt.Errorf("%w: root tensor %d of %d", pg.ErrInvalidOp, at.Tensor, len(ts))
	}
	return nil
}

// BroadcastMulti copies ts[at.Tensor] of at.Root into every tensor of every rank.
func BroadcastMulti(ctx context.Context, g *pg.Group, ts []tensor.Tensor, at RootTensor) error {
	if err := at.check(ts); err != nil {
		return err
	}
	if err := sameSizes(ts); err != nil {
		return err
	}
	if err := g.Broadcast(ctx, ts[at.Tensor], at.Root); err != nil {
		return err
	}
	return spread(ts, at.Tensor)
}

// AllGatherMulti gathers all tensors of all ranks into each of this rank's
// lists: out[i][r*len(in)+j] becomes in[j] of rank r.
func AllGatherMulti(ctx context.Context, g *pg.Group, in []tensor.Tensor, out [][]tensor.Tensor) error {
	size, err := ranksOf(pg.KindAllGather, out, len(in))
	if err != nil {
		return err
	}
	columns := make([][]tensor.Tensor, size)
	for r := range columns {
		columns[r] = out[0][r*len(in) : (r+1)*len(in)]
	}
	if err := g.AllGatherCoalesced(ctx, in, columns); err != nil {
		return err
	}
	for _, list := range out[1:] {
		for j := range list {
			if err := copyTensor(list[j], out[0][j]); err != nil {
				return err
			}
		}
	}
	return nil
}

// ranksOf is the number of ranks for which the caller brought lists, of perRank tensors
// for each. Whether so many take part shows when the op runs.
func ranksOf(k pg.Kind, lists [][]tensor.Tensor, perRank int) (int, error) {
	if len(lists) == 0 || perRank == 0 {
		return 0, fmt.Errorf("%w: multi-tensor %v of %d lists and %d tensors, want 1 or more of each",
			pg.ErrInvalidOp, k, len(lists), perRank)
	}
	n := len(lists[0])
	for i := range lists {
		if len(lists[i]) != n || n == 0 || n%perRank != 0 {
			return 0, fmt.Errorf("%w: multi-tensor %v: list %d has %d tensors, list 0 has %d, want %d for each rank in all",
				pg.ErrInvalidOp, k, i, len(lists[i]), n, perRank)
		}
	}
	return n / perRank, nil
}

// ReduceScatterMulti reduces in[i][r*len(out)+j] over all i of all ranks into
// out[j] of rank r.
func ReduceScatterMulti(ctx context.Context, g *pg.Group, in [][]tensor.Tensor, out []tensor.Tensor, op tensor.ReduceOp) error {
	size, err := ranksOf(pg.KindReduceScatter, in, len(out))
	if err != nil {
		return err
	}
	ops := make([]*pg.Op, len(out))
	for j := range out {
		slots := make([]tensor.Tensor, size)
		for r := range slots {
			same := make([]tensor.Tensor, len(in)) // what falls on one slot, from every list
			for i := range in {
				same[i] = in[i][r*len(out)+j]
			}
			folded, err := foldTensors(same, op)
			if err != nil {
				return err
			}
			slots[r] = folded
		}
		ops[j] = &pg.Op{Kind: pg.KindReduceScatter, Reduce: op, In: slots, Out: out[j : j+1], PerRank: len(in)}
	}
	return g.Batch(ctx, ops)
}

// foldLocal folds ts into one tensor and gives the op that goes on from there.
// A single tensor, and an all-reduce's first, are folded in place.
func foldLocal(ts []tensor.Tensor, op tensor.ReduceOp, k pg.Kind) (*pg.Op, error) {
	if op == tensor.PreMulSum {
		return nil, fmt.Errorf("%w: multi-tensor %v of %v", pg.ErrInvalidOp, k, op)
	}
	folded, err := foldTensors(ts, op)
	if err != nil {
		return nil, err
	}
	if k == pg.KindAllReduce && !folded.SameMemory(ts[0]) {
		copy(ts[0].Bytes(), folded.Bytes())
		folded = ts[0]
	}
	one := []tensor.Tensor{folded}
	return &pg.Op{Kind: k, Reduce: op, In: one, Out: one, PerRank: len(ts)}, nil
}

// foldTensors folds ts into fresh memory; one alone is itself.
func foldTensors(ts []tensor.Tensor, op tensor.ReduceOp) (tensor.Tensor, error) {
	if err := sameSizes(ts); err != nil {
		return tensor.Tensor{}, err
	}
	if len(ts) == 1 {
		return ts[0], nil
	}
	whole := pg.Op{Kind: pg.KindAllReduce, Reduce: op, In: ts[:1], Out: ts[:1]}
	if err := whole.Validate(0, 1); err != nil { // what the ranks could not reduce, one cannot fold
		return tensor.Tensor{}, err
	}
	if op == tensor.Avg {
		op = tensor.Sum // the backend divides
	}
	result := tensor.New(ts[0].DType(), ts[0].Len())
	inputs := make([][]byte, len(ts))
	for i := range ts {
		inputs[i] = ts[i].Bytes()
	}
	return result, tensor.Reduce(result.Bytes(), inputs, ts[0].DType(), op, 1, 0)
}

// sameSizes checks that tensors can stand for one another.
func sameSizes(ts []tensor.Tensor) error {
	if len(ts) == 0 {
		return fmt.Errorf("%w: multi-tensor verb without tensors", pg.ErrInvalidOp)
	}
	for i, t := range ts {
		if t.DType() != ts[0].DType() || t.Len() != ts[0].Len() || t.IsNone() {
			return fmt.Errorf("%w: multi-tensor verb: tensor %d is %v, tensor 0 is %v", pg.ErrInvalidOp, i, t, ts[0])
		}
		if t.Device().Type != tensor.DeviceCPU {
			return fmt.Errorf("%w: multi-tensor verb on %v", pg.ErrUnsupported, t.Device())
		}
		if !t.Contiguous() {
			return fmt.Errorf("%w: multi-tensor verb: tensor %d is not contiguous", pg.ErrInvalidOp, i)
		}
	}
	return nil
}

// spread copies ts[from] over the others.
func spread(ts []tensor.Tensor, from int) error {
	for i := range ts {
		if i != from {
			if err := copyTensor(ts[i], ts[from]); err != nil {
				return err
			}
		}
	}
	return nil
}

func copyTensor(to, from tensor.Tensor) error {
	if to.DType() != from.DType() || to.Len() != from.Len() || to.Bytes() == nil && to.Len() > 0 {
		return fmt.Errorf("%w: copy of %v into %v", pg.ErrInvalidOp, from, to)
	}
	copy(to.Bytes(), from.Bytes())
	return nil
}
