package pg

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/skerry-ft/skerry/tensor"
)

// extentOf is where a tensor lies: in device memory, or at an address.
type extentOf struct {
	mem    tensor.DeviceMemory
	lo, hi uintptr
	side   uint8 // 0 In, 1 Out
	index  int
}

func extent(t *tensor.Tensor) (e extentOf) {
	e.mem, e.lo, e.hi = t.Extent()
	return e
}

// pairwiseTensors is up to how many tensors are compared each with each; beyond
// it they are sorted first, which allocates.
const pairwiseTensors = 64

// validateOverlap checks that no result is written where another tensor of the
// op lies: results would depend on the order in which bytes arrive. An output
// may be the very input that it replaces: the one of the same index, or this
// rank's own slot. Inputs may overlap one another, since they are only read.
func (op *Op) validateOverlap(rank int) error {
	if len(op.Out) == 0 || op.Kind == KindBroadcast && len(op.In) == 0 && len(op.Out) == 1 {
		return nil
	}
	if op.ascending() {
		return nil
	}
	if len(op.In)+len(op.Out) > pairwiseTensors {
		return op.overlapSorted(rank)
	}
	for o := range op.Out {
		a := extent(&op.Out[o])
		for p := range op.Out[:o] {
			if b := extent(&op.Out[p]); a.meets(b) {
				return op.overlapError(1, p, 1, o)
			}
		}
		for i := range op.In {
			if b := extent(&op.In[i]); a.meets(b) && !op.mayShare(i, o, rank) {
				return op.overlapError(0, i, 1, o)
			}
		}
	}
	return nil
}

// ascending tells, in one pass, that outputs lie one after the other and that
// each input is its output: the common case of gradients.
func (op *Op) ascending() bool {
	paired := op.Kind == KindAllReduce || op.Kind == KindReduce || op.Kind == KindBroadcast
	if !paired || len(op.In) != 0 && len(op.In) != len(op.Out) {
		return false
	}
	last := extentOf{}
	for i := range op.Out {
		e := extent(&op.Out[i])
		if len(op.In) > 0 && !op.In[i].SameMemory(op.Out[i]) || e.mem != last.mem && i > 0 || e.lo < last.hi {
			return false
		}
		last = e
	}
	return true
}

func (a extentOf) meets(b extentOf) bool {
	return a.mem == b.mem && a.lo < b.hi && b.lo < a.hi && a.lo < a.hi && b.lo < b.hi
}

// mayShare tells whether In[i] and Out[o] may be the same memory.
func (op *Op) mayShare(i, o, rank int) bool {
	if !op.In[i].SameMemory(op.Out[o]) {
		return false
	}
	switch op.Kind {
	case KindAllReduce, KindReduce, KindBroadcast:
		return i == o
	case KindAllGather, KindGather:
		return o == rank
	case KindScatter, KindReduceScatter:
		return i == rank
	default:
		return false
	}
}

// overlapSorted is validateOverlap for many tensors.
func (op *Op) overlapSorted(rank int) error {
	all := make([]extentOf, 0, len(op.In)+len(op.Out))
	for side, tensors := range [2][]tensor.Tensor{op.In, op.Out} {
		for i := range tensors {
			if e := extent(&tensors[i]); e.lo < e.hi {
				e.side, e.index = uint8(side), i
				all = append(all, e)
			}
		}
	}
	slices.SortFunc(all, func(a, b extentOf) int { return cmp.Compare(a.lo, b.lo) })
	var open []extentOf // those that reach beyond where the sweep is
	for _, e := range all {
		open = slices.DeleteFunc(open, func(o extentOf) bool { return o.hi <= e.lo })
		for _, o := range open {
			if o.mem != e.mem || o.side == 0 && e.side == 0 {
				continue
			}
			in, out := o, e
			if o.side == 1 {
				in, out = e, o
			}
			if in.side == 0 && op.mayShare(in.index, out.index, rank) {
				continue
			}
			return op.overlapError(in.side, in.index, out.side, out.index)
		}
		open = append(open, e)
	}
	return nil
}

func (op *Op) overlapError(side uint8, i int, otherSide uint8, j int) error {
	name := [2]string{"In", "Out"}
	return fmt.Errorf("%w: %v: %s[%d] and %s[%d] overlap in memory", ErrInvalidOp, op.Kind, name[side], i, name[otherSide], j)
}
