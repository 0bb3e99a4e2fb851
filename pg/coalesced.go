package pg

import (
	"context"
	"fmt"

	"github.com/skerry-ft/skerry/tensor"
)

// AllGatherCoalesced gathers several tensors as one: out[r][i] becomes in[i] of
// rank r, everywhere. Len(out) is Size and len(out[r]) is len(in); tensors may
// differ in size and dtype.
func (g *Group) AllGatherCoalesced(ctx context.Context, in []tensor.Tensor, out [][]tensor.Tensor) error {
	if err := checkColumns(KindAllGather, in, out); err != nil {
		return err
	}
	c := g.takeBatch(len(in))
	defer g.releaseBatch(c)
	for i := range in {
		sub := c.subs[i]
		op := sub.prepare(Op{Kind: KindAllGather})
		op.Out = op.room(1, len(out))
		for r := range out {
			op.Out[r] = out[r][i]
		}
		sub.single(in[i], tensor.Tensor{})
	}
	return g.wait(ctx, c)
}

func checkColumns(k Kind, in []tensor.Tensor, out [][]tensor.Tensor) error {
	if len(in) == 0 || len(in) > MaxBatch {
		return fmt.Errorf("%w: coalesced %v of %d tensors, want 1 to %d", ErrInvalidOp, k, len(in), MaxBatch)
	}
	for r := range out {
		if len(out[r]) != len(in) {
			return fmt.Errorf("%w: coalesced %v: %d outputs for rank %d, want %d, as many as inputs",
				ErrInvalidOp, k, len(out[r]), r, len(in))
		}
	}
	return nil
}

// AllGatherIntoTensorCoalesced is AllGatherIntoTensor of in[i] into out[i], for
// all i as one.
func (g *Group) AllGatherIntoTensorCoalesced(ctx context.Context, in, out []tensor.Tensor) error {
	return g.flatBatch(ctx, Op{Kind: KindAllGather, Flat: true}, in, out)
}

// ReduceScatterCoalesced reduces in[i][r] over all ranks into out[i] of rank r,
// for all i as one.
func (g *Group) ReduceScatterCoalesced(ctx context.Context, in [][]tensor.Tensor, out []tensor.Tensor, op tensor.ReduceOp) error {
	if len(out) == 0 || len(out) > MaxBatch || len(in) != len(out) {
		return fmt.Errorf("%w: coalesced reduce-scatter of %d inputs into %d outputs, want as many, 1 to %d",
			ErrInvalidOp, len(in), len(out), MaxBatch)
	}
	c := g.takeBatch(len(out))
	defer g.releaseBatch(c)
	for i := range out {
		c.subs[i].prepare(Op{Kind: KindReduceScatter, Reduce: op, In: in[i]})
		c.subs[i].single(tensor.Tensor{}, out[i])
	}
	return g.wait(ctx, c)
}

// ReduceScatterTensorCoalesced is ReduceScatterTensor of in[i] into out[i], for
// all i as one.
func (g *Group) ReduceScatterTensorCoalesced(ctx context.Context, in, out []tensor.Tensor, op tensor.ReduceOp) error {
	return g.flatBatch(ctx, Op{Kind: KindReduceScatter, Flat: true, Reduce: op}, in, out)
}

func (g *Group) flatBatch(ctx context.Context, op Op, in, out []tensor.Tensor) error {
	if len(in) == 0 || len(in) > MaxBatch || len(in) != len(out) {
		return fmt.Errorf("%w: coalesced %v of %d inputs into %d outputs, want as many, 1 to %d",
			ErrInvalidOp, op.Kind, len(in), len(out), MaxBatch)
	}
	c := g.takeBatch(len(in))
	defer g.releaseBatch(c)
	for i := range in {
		c.subs[i].prepare(op)
		c.subs[i].single(in[i], out[i])
	}
	return g.wait(ctx, c)
}
