package pg

import (
	"context"

	"github.com/skerry-ft/skerry/tensor"
)

// AllGatherIntoTensor copies in of every rank into out, one after the other:
// out has Size times the elements of in, and either shape of torch's (a
// concatenation along the first dimension, or a stack). All ranks give equal
// sizes; in may be this rank's part of out.
func (g *Group) AllGatherIntoTensor(ctx context.Context, in, out tensor.Tensor) error {
	return g.run(ctx, Op{Kind: KindAllGather, Flat: true}, in, out)
}

// AllGatherIntoTensorAsync starts AllGatherIntoTensor.
func (g *Group) AllGatherIntoTensorAsync(in, out tensor.Tensor) *Work {
	return g.start(Op{Kind: KindAllGather, Flat: true}, in, out)
}

// GatherIntoTensor is AllGatherIntoTensor whose result goes to root only; other
// ranks give the zero Tensor as out.
func (g *Group) GatherIntoTensor(ctx context.Context, in, out tensor.Tensor, root int) error {
	return g.run(ctx, Op{Kind: KindGather, Flat: true, Root: root}, in, out)
}

// ScatterTensor copies the r-th part of in of root into out of rank r; other
// ranks give the zero Tensor as in.
func (g *Group) ScatterTensor(ctx context.Context, in, out tensor.Tensor, root int) error {
	return g.run(ctx, Op{Kind: KindScatter, Flat: true, Root: root}, in, out)
}

// ReduceScatterTensor reduces the r-th part of in over all ranks into out of
// rank r: in has Size times the elements of out, and either of torch's shapes
// (concatenation or stack). Out may be this rank's part of in.
func (g *Group) ReduceScatterTensor(ctx context.Context, in, out tensor.Tensor, op tensor.ReduceOp) error {
	return g.run(ctx, Op{Kind: KindReduceScatter, Flat: true, Reduce: op}, in, out)
}

// ReduceScatterTensorAsync starts ReduceScatterTensor.
func (g *Group) ReduceScatterTensorAsync(in, out tensor.Tensor, op tensor.ReduceOp) *Work {
	return g.start(Op{Kind: KindReduceScatter, Flat: true, Reduce: op}, in, out)
}

// Splits says how AllToAllSingle cuts its tensors: the rows (of the first
// dimension) that go to each rank, and that come from each. Nil means even
// parts. What one rank sends to another must be what that one expects.
type Splits struct {
	In, Out []int
}

// AllToAllSingle cuts in into a part for each rank, sends part r to rank r, and
// puts what comes from rank r at its place in out.
func (g *Group) AllToAllSingle(ctx context.Context, in, out tensor.Tensor, s Splits) error {
	return g.run(ctx, Op{Kind: KindAllToAll, Flat: true, InSplits: s.In, OutSplits: s.Out}, in, out)
}

// AllToAllSingleAsync starts AllToAllSingle. The group keeps the splits until
// the Work is done.
func (g *Group) AllToAllSingleAsync(in, out tensor.Tensor, s Splits) *Work {
	return g.start(Op{Kind: KindAllToAll, Flat: true, InSplits: s.In, OutSplits: s.Out}, in, out)
}

// AllReducePreMulSum multiplies the elements of every rank by factor and sums
// them up, in place. All ranks give one factor.
func (g *Group) AllReducePreMulSum(ctx context.Context, t tensor.Tensor, factor float64) error {
	return g.run(ctx, Op{Kind: KindAllReduce, Reduce: tensor.PreMulSum, Factor: factor}, t, t)
}
