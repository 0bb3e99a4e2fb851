package pg

import (
	"context"
	"fmt"

	"github.com/skerry-ft/skerry/tensor"
)

// The verbs here take several tensors of each rank that count as if each were
// a rank's own, as torch's multi-GPU functions do: rank r's tensor j stands at
// r*k+j of all, k being the number of tensors per rank, equal on all ranks.
// Sums first fold each rank's tensors in their order, then the ranks in theirs.
// All tensors lie on the CPU and have one dtype and length. Avg divides by the number of
// tensors of all ranks: under Managed of those that take part when the op runs.

// AllReduceMulti reduces all tensors of all ranks into each of them.
func (g *Group) AllReduceMulti(ctx context.Context, ts []tensor.Tensor, op tensor.ReduceOp) error {
	first, err := g.foldLocal(ts, op, KindAllReduce)
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
func (g *Group) AllReduceMultiAsync(ts []tensor.Tensor, op tensor.ReduceOp) *Work {
	first, err := g.foldLocal(ts, op, KindAllReduce)
	if err != nil {
		return Finished(&Op{Kind: KindAllReduce, In: ts, Out: ts}, err)
	}
	w := g.submit(first)
	w.Then(func(err error) {
		if err == nil {
			_ = spread(ts, 0) // sizes were checked
		}
	})
	return w
}

// ReduceMulti reduces all tensors of all ranks into ts[at.Tensor] of at.Root. All
// others stay as they are.
func (g *Group) ReduceMulti(ctx context.Context, ts []tensor.Tensor, op tensor.ReduceOp, at RootTensor) error {
	if err := at.check(ts); err != nil {
		return err
	}
	first, err := g.foldLocal(ts, op, KindReduce)
	if err != nil {
		return err
	}
	first.Root, first.Out = at.Root, nil
	if out := g.atRoot(ts[at.Tensor], at.Root); !out.IsNone() {
		first.Out = []tensor.Tensor{out}
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
		return fmt.Errorf("%w: root tensor %d of %d", ErrInvalidOp, at.Tensor, len(ts))
	}
	return nil
}

// BroadcastMulti copies ts[at.Tensor] of at.Root into every tensor of every rank.
func (g *Group) BroadcastMulti(ctx context.Context, ts []tensor.Tensor, at RootTensor) error {
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
func (g *Group) AllGatherMulti(ctx context.Context, in []tensor.Tensor, out [][]tensor.Tensor) error {
	size, err := ranksOf(KindAllGather, out, len(in))
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
func ranksOf(k Kind, lists [][]tensor.Tensor, perRank int) (int, error) {
	if len(lists) == 0 || perRank == 0 {
		return 0, fmt.Errorf("%w: multi-tensor %v of %d lists and %d tensors, want 1 or more of each",
			ErrInvalidOp, k, len(lists), perRank)
	}
	n := len(lists[0])
	for i := range lists {
		if len(lists[i]) != n || n == 0 || n%perRank != 0 {
			return 0, fmt.Errorf("%w: multi-tensor %v: list %d has %d tensors, list 0 has %d, want %d for each rank in all",
				ErrInvalidOp, k, i, len(lists[i]), n, perRank)
		}
	}
	return n / perRank, nil
}

// ReduceScatterMulti reduces in[i][r*len(out)+j] over all i of all ranks into
// out[j] of rank r.
func (g *Group) ReduceScatterMulti(ctx context.Context, in [][]tensor.Tensor, out []tensor.Tensor, op tensor.ReduceOp) error {
	size, err := ranksOf(KindReduceScatter, in, len(out))
	if err != nil {
		return err
	}
	ops := make([]*Op, len(out))
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
		ops[j] = &Op{Kind: KindReduceScatter, Reduce: op, In: slots, Out: out[j : j+1], perRank: len(in)}
	}
	return g.Batch(ctx, ops)
}

// foldLocal folds ts into one tensor and gives the op that goes on from there.
// A single tensor, and an all-reduce's first, are folded in place.
func (g *Group) foldLocal(ts []tensor.Tensor, op tensor.ReduceOp, k Kind) (*Op, error) {
	if err := sameSizes(ts); err != nil {
		return nil, err
	}
	if op == tensor.PreMulSum {
		return nil, fmt.Errorf("%w: multi-tensor %v of %v", ErrInvalidOp, k, op)
	}
	folded, err := foldTensors(ts, op)
	if err != nil {
		return nil, err
	}
	if k == KindAllReduce && !folded.SameMemory(ts[0]) {
		copy(ts[0].Bytes(), folded.Bytes())
		folded = ts[0]
	}
	one := []tensor.Tensor{folded}
	return &Op{Kind: k, Reduce: op, In: one, Out: one, perRank: len(ts)}, nil
}

// foldTensors folds ts into fresh memory; one alone is itself.
func foldTensors(ts []tensor.Tensor, op tensor.ReduceOp) (tensor.Tensor, error) {
	if err := sameSizes(ts); err != nil {
		return tensor.Tensor{}, err
	}
	if len(ts) == 1 {
		return ts[0], nil
	}
	if op == tensor.Avg {
		if err := ts[0].DType().Reduces(tensor.Avg); err != nil {
			return tensor.Tensor{}, asOpError(err)
		}
		op = tensor.Sum // the backend divides
	}
	result := tensor.New(ts[0].DType(), ts[0].Len())
	inputs := make([][]byte, len(ts))
	for i := range ts {
		inputs[i] = ts[i].Bytes()
	}
	return result, asOpError(tensor.Reduce(result.Bytes(), inputs, ts[0].DType(), op, 1, 0))
}

// sameSizes checks that tensors can stand for one another.
func sameSizes(ts []tensor.Tensor) error {
	if len(ts) == 0 {
		return fmt.Errorf("%w: multi-tensor verb without tensors", ErrInvalidOp)
	}
	for i, t := range ts {
		if t.DType() != ts[0].DType() || t.Len() != ts[0].Len() || t.IsNone() {
			return fmt.Errorf("%w: multi-tensor verb: tensor %d is %v, tensor 0 is %v", ErrInvalidOp, i, t, ts[0])
		}
		if t.Device().Type != tensor.DeviceCPU {
			return fmt.Errorf("%w: multi-tensor verb on %v", ErrUnsupported, t.Device())
		}
		if !t.Contiguous() {
			return fmt.Errorf("%w: multi-tensor verb: tensor %d is not contiguous", ErrInvalidOp, i)
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
		return fmt.Errorf("%w: copy of %v into %v", ErrInvalidOp, from, to)
	}
	copy(to.Bytes(), from.Bytes())
	return nil
}
