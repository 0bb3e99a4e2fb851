package quant

import (
	"context"
	"errors"
	"fmt"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// AllReduce reduces t over the ranks that take part, in place, in eight bits per element:
// see the package comment. T is contiguous memory of the CPU, of float32, float16 or
// bfloat16; op is Sum or Avg.
//
// Every rank calls it with as many elements and the same op and options, in the order of
// its other collectives. It blocks until the result is complete on this rank, ctx ends, or
// the group is aborted. After an error t is as it was.
//
// Errors: pg.ErrInvalidOp and pg.ErrUnsupported, of what only this rank has got wrong;
// those of pg.Group.Compose and of its ops, which under pg.Managed are reported as well.
// Source: torchft allreduce_quantized.
func AllReduce(ctx context.Context, g *pg.Group, t tensor.Tensor, op tensor.ReduceOp, o Options) error {
	if t.IsNone() || t.Bytes() == nil && t.Len() > 0 {
		return fmt.Errorf("%w: quantised all-reduce of %v, want contiguous memory of the cpu", pg.ErrInvalidOp, t)
	}
	switch t.DType() {
	case tensor.Float32:
		return allReduce(ctx, g, tensor.Slice[float32](t), op, o)
	case tensor.Float16:
		return allReduceHalves(ctx, g, tensor.Slice[tensor.F16](t), tensor.NewF16, op, o)
	case tensor.BFloat16:
		return allReduceHalves(ctx, g, tensor.Slice[tensor.BF16](t), tensor.NewBF16, op, o)
	}
	return fmt.Errorf("%w: quantised all-reduce of %v, want float32, float16 or bfloat16", pg.ErrUnsupported, t)
}

func allReduce(ctx context.Context, g *pg.Group, x []float32, op tensor.ReduceOp, o Options) error {
	return g.Compose(ctx, func(c *pg.Composed) error { return AllReduceIn(ctx, c, x, op, o) })
}

// half is a float of 16 bits.
type half interface{ Float32() float32 }

func allReduceHalves[T half](ctx context.Context, g *pg.Group, x []T, narrow func(float32) T, op tensor.ReduceOp, o Options) error {
	wide := make([]float32, len(x))
	for i, v := range x {
		wide[i] = v.Float32()
	}
	if err := allReduce(ctx, g, wide, op, o); err != nil {
		return err
	}
	for i, v := range wide {
		x[i] = narrow(v)
	}
	return nil
}

// AllReduceIn is AllReduce as a part of a verb that is made of others. X is written only
// once all ops are through, so that the verb may begin anew.
func AllReduceIn(ctx context.Context, c *pg.Composed, x []float32, op tensor.ReduceOp, o Options) error {
	if err := o.Validate(); err != nil {
		return fmt.Errorf("%w: quantised all-reduce: %w", pg.ErrInvalidOp, err)
	}
	if op != tensor.Sum && op != tensor.Avg {
		return fmt.Errorf("%w: quantised all-reduce of %v, want sum or avg", pg.ErrUnsupported, op)
	}
	if len(x) == 0 {
		return nil
	}
	r := &reduction{c: c, codec: newCodec(o.Format), layout: o.layout(World{len(x), c.Size()}), op: op}
	parts, err := r.exchange(ctx, x)
	if err != nil {
		return fmt.Errorf("exchange quantised parts: %w", err)
	}
	own, err := r.fold(parts, len(x))
	if err != nil {
		return err
	}
	all := tensor.New(tensor.Uint8, c.Size()*r.slot)
	if err := c.AllGatherIntoTensor(ctx, own, all); err != nil {
		return fmt.Errorf("gather quantised results: %w", err)
	}
	for rank := range c.Size() {
		part := r.part(x, rank)
		r.codec.decode(r.slotOf(all, rank), len(part), r.layout, func(from int, row []float32) { copy(part[from:], row) })
	}
	return nil
}

// reduction is one AllReduce.
type reduction struct {
	layout

	c     *pg.Composed
	codec *codec
	op    tensor.ReduceOp
}

// part are the elements that a rank reduces; none, or fewer than others, at the end.
func (r *reduction) part(x []float32, rank int) []float32 {
	size := r.per * r.row
	return x[min(rank*size, len(x)):min((rank+1)*size, len(x))]
}

// slotOf is the slot of a rank.
func (r *reduction) slotOf(t tensor.Tensor, rank int) []byte {
	return t.Bytes()[rank*r.slot : (rank+1)*r.slot]
}

// exchange gives each rank its part of x, and returns this rank's part of all ranks, one
// slot each. What a rank gets that does not take part counts for nothing.
func (r *reduction) exchange(ctx context.Context, x []float32) (tensor.Tensor, error) {
	size := r.c.Size()
	out, in := tensor.New(tensor.Uint8, size*r.slot), tensor.New(tensor.Uint8, size*r.slot)
	for rank := range size {
		r.codec.encode(r.slotOf(out, rank), r.part(x, rank), r.layout)
	}
	err := r.c.Do(ctx, &pg.Op{Kind: pg.KindAllToAll, Flat: true, In: []tensor.Tensor{out}, Out: []tensor.Tensor{in}})
	if r.c.Rank() < 0 && errors.Is(err, pg.ErrNotParticipating) {
		err = nil // the others have met it
	}
	return in, err
}

// fold reduces this rank's part of all ranks, in rank order, and quantises it.
func (r *reduction) fold(parts tensor.Tensor, elements int) (tensor.Tensor, error) {
	own := tensor.New(tensor.Uint8, r.slot)
	if r.c.Rank() < 0 {
		return own, nil // given to nobody
	}
	size := r.per * r.row
	sum := make([]float32, max(min(size, elements-r.c.Rank()*size), 0))
	for rank := range r.c.Size() {
		r.codec.decode(r.slotOf(parts, rank), len(sum), r.layout, func(from int, row []float32) {
			for i, v := range row {
				if rank == 0 {
					sum[from+i] = v
				} else {
					sum[from+i] += v
				}
			}
		})
	}
	if r.op == tensor.Avg {
		for i := range sum {
			sum[i] /= float32(r.c.Size())
		}
	}
	r.codec.encode(own.Bytes(), sum, r.layout)
	return own, nil
}
