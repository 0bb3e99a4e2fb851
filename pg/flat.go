package pg

import (
	"fmt"

	"github.com/skerry-ft/skerry/tensor"
)

// submit hands op to the backend, with its slots in place.
func (g *Group) submit(op *Op) *Work {
	if over := g.sub.over(); over != nil {
		return Finished(op, over)
	}
	if op.Flat || op.Kind == KindBatch || op.seat != nil || op.averagesSeveral() {
		if err := g.prepareSlots(op); err != nil {
			return Finished(op, err)
		}
	}
	return g.backend.Submit(op)
}

// prepareSlots gives an op what follows from the number of ranks, and checks all ops
// of a batch before the first of them starts. A decorator with ranks of its own does
// that, once it knows them.
func (g *Group) prepareSlots(op *Op) error {
	if g.Resizable() {
		return nil
	}
	c, ok := g.Config()
	if !ok {
		if err := g.backend.Err(); err != nil {
			return err
		}
		return fmt.Errorf("%v: %w through this Group", op.Kind, ErrUnconfigured)
	}
	if op.seat != nil && op.seat.epoch != c.Epoch() {
		return errMoved
	}
	return op.settleSlots(c.Rank, c.WorldSize())
}

// settleSlots expands op, and what it holds, for rank of worldSize.
func (op *Op) settleSlots(rank, worldSize int) error {
	if op.Kind != KindBatch {
		return op.expand(worldSize)
	}
	for i, sub := range op.Batch {
		if sub == nil || sub.Kind == KindBatch {
			break // Validate says what is wrong
		}
		if err := sub.expand(worldSize); err != nil {
			return fmt.Errorf("op %d of the batch: %w", i, err)
		}
	}
	return op.Validate(rank, worldSize)
}

// expand puts the slots of a flat op into In and Out, and gives an average of several
// tensors per rank its divisor.
func (op *Op) expand(worldSize int) error {
	if op.averagesSeveral() {
		op.Divisor = op.PerRank * worldSize
	}
	if !op.Flat {
		return nil
	}
	for side, tensors := range [2][]tensor.Tensor{op.In, op.Out} {
		name := [2]string{"In", "Out"}[side]
		if len(tensors) > 1 {
			return fmt.Errorf("%w: flat %v with %d tensors in %s, want 1", ErrInvalidOp, op.Kind, len(tensors), name)
		}
		if len(tensors) == 1 && (tensors[0].IsNone() || !tensors[0].Contiguous()) {
			return fmt.Errorf("%w: flat %v of %v, want a contiguous tensor", ErrInvalidOp, op.Kind, tensors[0])
		}
	}
	flatIn, flatOut := false, false
	switch op.Kind {
	case KindAllGather, KindGather:
		flatOut = true
	case KindReduceScatter, KindScatter:
		flatIn = true
	case KindAllToAll:
		flatIn, flatOut = true, true
	default:
		return fmt.Errorf("%w: flat %v, want a kind with a slot per rank", ErrInvalidOp, op.Kind)
	}
	if err := op.checkFlatSizes(worldSize); err != nil {
		return err
	}
	if len(op.Out) == 1 {
		op.flat = op.Out[0]
	}
	var err error
	if flatIn && len(op.In) == 1 {
		op.In, err = op.split(0, op.In[0], op.InSplits, worldSize)
	}
	if err == nil && flatOut && len(op.Out) == 1 {
		op.Out, err = op.split(1, op.Out[0], op.OutSplits, worldSize)
	}
	op.Flat = err != nil
	return err
}

// averagesSeveral tells whether the divisor follows from the number of ranks and of the
// tensors of each.
func (op *Op) averagesSeveral() bool {
	return op.PerRank > 0 && op.Reduce == tensor.Avg && op.Divisor == 0
}

// checkFlatSizes says what is wrong in terms of the two tensors the caller gave,
// where both are there and one is worldSize times the other.
func (op *Op) checkFlatSizes(worldSize int) error {
	if op.Kind == KindAllToAll || len(op.In) == 0 || len(op.Out) == 0 {
		return nil
	}
	slot, all, name := op.In[0].Len(), op.Out[0].Len(), "output"
	if op.Kind == KindReduceScatter || op.Kind == KindScatter {
		slot, all, name = op.Out[0].Len(), op.In[0].Len(), "input"
	}
	if slot*worldSize != all {
		return fmt.Errorf("%w: %v: %s has %d elements, want %d: %d for each of %d ranks",
			ErrInvalidOp, op.Kind, name, all, slot*worldSize, slot, worldSize)
	}
	return nil
}

// split cuts t into a slot per rank: rows as splits says, or even parts.
func (op *Op) split(side int, t tensor.Tensor, splits []int, worldSize int) ([]tensor.Tensor, error) {
	name := [2]string{"input", "output"}[side]
	slots := op.room(side, worldSize)
	if len(splits) == 0 {
		rows := t.Len()
		if op.Kind == KindAllToAll {
			rows = t.Rows()
		}
		if worldSize == 0 || rows%worldSize != 0 {
			return nil, fmt.Errorf("%w: %v: %d rows of %s do not divide by %d ranks; give splits",
				ErrInvalidOp, op.Kind, rows, name, worldSize)
		}
		part := t.Len() / worldSize
		for r := range slots {
			slots[r] = t.Flat(r*part, (r+1)*part)
		}
		return slots, nil
	}
	if len(splits) != worldSize {
		return nil, fmt.Errorf("%w: %v: %d splits of %s, want %d", ErrInvalidOp, op.Kind, len(splits), name, worldSize)
	}
	rows, width, at := t.Rows(), t.RowLen(), 0
	for r, n := range splits {
		if n < 0 || n > rows-at {
			return nil, fmt.Errorf("%w: %v: splits %v of %s, which has %d rows", ErrInvalidOp, op.Kind, splits, name, rows)
		}
		slots[r] = t.Flat(at*width, (at+n)*width)
		at += n
	}
	if at != rows {
		return nil, fmt.Errorf("%w: %v: splits %v of %s are %d rows, it has %d", ErrInvalidOp, op.Kind, splits, name, at, rows)
	}
	return slots, nil
}

// room is memory for n slots on a side: the op's own if it has any.
func (op *Op) room(side, n int) []tensor.Tensor {
	c := op.call
	if c == nil {
		return make([]tensor.Tensor, n)
	}
	if cap(c.slots[side]) < n {
		c.slots[side] = make([]tensor.Tensor, n)
	}
	c.slots[side] = c.slots[side][:n]
	return c.slots[side]
}
