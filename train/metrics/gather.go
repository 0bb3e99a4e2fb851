package metrics

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// AllGather gives the tensors of all ranks as one of shape (world, …), by rank, on every
// rank: fresh memory of the host. All ranks give one dtype and shape; a tensor on a device
// is copied to the host first.
//
// Source: all_gather_ddp_if_available of Lightning, with sync_grads off.
func AllGather(ctx context.Context, g *pg.Group, in tensor.Tensor) (tensor.Tensor, error) {
	pass, err := AllGatherGrad(ctx, g, in)
	if err != nil {
		return tensor.Tensor{}, err
	}
	return pass.Out, nil
}

// GatherPass is an all-gather that has run forward. It is for one goroutine.
type GatherPass struct {
	Out tensor.Tensor // of shape (world, …)

	g     *pg.Group
	shape []int // of this rank's
	among among
}

// among is who takes part in a verb.
type among struct {
	epoch  pg.Epoch
	roster pg.Roster
}

func amongOf(c *pg.Composed) among { return among{epoch: c.Epoch(), roster: c.Roster()} }

func (a among) equal(b among) bool {
	return a.epoch == b.epoch && a.roster.Rank == b.roster.Rank && a.roster.WorldSize == b.roster.WorldSize &&
		slices.Equal(a.roster.Participants, b.roster.Participants)
}

// AllGatherGrad is AllGather with the way back: of a loss that is computed of Out, Backward
// makes the gradient of this rank's own tensor.
//
// Source: AllGatherGrad, all_gather_ddp_if_available with sync_grads of Lightning.
func AllGatherGrad(ctx context.Context, g *pg.Group, in tensor.Tensor) (*GatherPass, error) {
	if in.IsNone() || !in.Contiguous() {
		return nil, fmt.Errorf("%w: all-gather of %v, want a contiguous tensor", pg.ErrInvalidOp, in)
	}
	in, err := in.OnHost()
	if err != nil {
		return nil, err
	}
	p := &GatherPass{g: g, shape: in.Shape()}
	if g == nil {
		p.Out = tensor.New(in.DType(), p.outShape(1)...)
		copy(p.Out.Bytes(), in.Bytes())
		return p, nil
	}
	err = g.Compose(ctx, func(c *pg.Composed) error {
		p.among = amongOf(c)
		p.Out = tensor.New(in.DType(), p.outShape(c.Size())...)
		if err := c.AllGatherIntoTensor(ctx, in, p.Out); err != nil {
			return fmt.Errorf("all-gather %v: %w", in, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

func (p *GatherPass) outShape(world int) []int { return append([]int{world}, p.shape...) }

// Backward gives the gradient of this rank's tensor: the sum, over all ranks, of what their
// gradients of Out have in its place. Grad has the shape and dtype of Out, whose sum is
// defined; the result is fresh memory of the host. All ranks call it, in the order of their
// other collectives, in the quorum and among the same ranks as AllGatherGrad ran: if the quorum is
// another by now, or others take part, even as many, it fails with pg.ErrAborted, and the step
// with it; without a manager the group is aborted.
//
// Cost: a reduce-scatter, where Lightning all-reduces and takes its part.
func (p *GatherPass) Backward(ctx context.Context, grad tensor.Tensor) (tensor.Tensor, error) {
	out := tensor.New(p.Out.DType(), p.shape...)
	switch {
	case grad.DType() != p.Out.DType() || grad.Len() != p.Out.Len() || !grad.Contiguous():
		return tensor.Tensor{}, fmt.Errorf("%w: backward of %v, want a contiguous gradient like %v", pg.ErrInvalidOp, grad, p.Out)
	case out.DType().Reduces(tensor.Sum) != nil:
		return tensor.Tensor{}, fmt.Errorf("%w: backward: %w", pg.ErrInvalidOp, out.DType().Reduces(tensor.Sum))
	}
	grad, err := grad.OnHost()
	if err != nil {
		return tensor.Tensor{}, err
	}
	if p.g == nil {
		copy(out.Bytes(), grad.Bytes())
		return out, nil
	}
	err = p.g.Compose(ctx, func(c *pg.Composed) error {
		if now := amongOf(c); !now.equal(p.among) {
			err := fmt.Errorf("%w: backward among ranks %v of quorum %d, the forward pass was among %v of quorum %d",
				pg.ErrAborted, now.roster.Participants, now.epoch.QuorumID, p.among.roster.Participants, p.among.epoch.QuorumID)
			p.g.ReportError(err) // those that are there would wait for this rank
			return err
		}
		return c.Do(ctx, &pg.Op{
			Kind: pg.KindReduceScatter, Flat: true, Reduce: tensor.Sum,
			In: []tensor.Tensor{grad}, Out: []tensor.Tensor{out},
		})
	})
	switch {
	case errors.Is(err, pg.ErrNotParticipating):
		return out, out.Zero()
	case err != nil:
		return tensor.Tensor{}, fmt.Errorf("backward of all-gather: %w", err)
	}
	return out, nil
}
