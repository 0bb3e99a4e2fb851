package pg

import (
	"fmt"
	"math"

	"github.com/skerry-ft/skerry/tensor"
)

// Bounds of an op.
const (
	// MaxTensors is how many tensors one op may carry on each side.
	MaxTensors = 1 << 16
	// MaxTag is the highest tag of a point-to-point op.
	MaxTag = math.MaxInt32
)

// Validate checks op as rank of a group of worldSize ranks would run it: that
// kind and reduce op exist, ranks are in bounds, tensors are there, contiguous,
// on one device, of one dtype, and match in size, and that the dtype takes the
// reduce op. It does not know the peers' ops; differing ones are ErrMismatch
// later. Errors wrap ErrInvalidOp and name value and bound. It allocates
// nothing if op is valid.
//
// Out must be empty where op.Kind gives this rank no result (Reduce and Gather
// off the root), and In where it takes nothing from it (Scatter off the root);
// In of a Broadcast off the root is ignored.
func (op *Op) Validate(rank, worldSize int) error {
	if !op.Kind.Valid() {
		return fmt.Errorf("%w: %v", ErrInvalidOp, op.Kind)
	}
	if rank < 0 || rank >= worldSize {
		return fmt.Errorf("%w: %v at rank %d of %d", ErrInvalidOp, op.Kind, rank, worldSize)
	}
	if op.Kind == KindBatch {
		return op.validateBatch(rank, worldSize)
	}
	if op.Flat {
		return fmt.Errorf("%w: %v whose slots lie in one tensor at a backend; submit it to a Group", ErrInvalidOp, op.Kind)
	}
	if err := op.validateTensors(); err != nil {
		return err
	}
	if op.Kind.Reduces() {
		if err := op.validateReduce(); err != nil {
			return err
		}
	}
	switch op.Kind {
	case KindReduce, KindBroadcast, KindGather, KindScatter:
		if op.Root < 0 || op.Root >= worldSize {
			return fmt.Errorf("%w: %v with root %d, want 0 to %d", ErrInvalidOp, op.Kind, op.Root, worldSize-1)
		}
	case KindSend, KindRecv:
		if err := op.validatePeer(rank, worldSize); err != nil {
			return err
		}
	case KindBallot:
		if len(op.Ballot) > MaxBallotBytes {
			return fmt.Errorf("%w: ballot of %d bytes, want at most %d", ErrInvalidOp, len(op.Ballot), MaxBallotBytes)
		}
	}
	if err := op.validateShape(rank, worldSize); err != nil {
		return err
	}
	return op.validateOverlap(rank)
}

func (op *Op) validatePeer(rank, worldSize int) error {
	anySource := op.Kind == KindRecv && op.Peer == AnySource
	switch {
	case op.Tag < 0 || op.Tag > MaxTag && !op.internal:
		return fmt.Errorf("%w: %v with tag %d, want 0 to %d", ErrInvalidOp, op.Kind, op.Tag, MaxTag)
	case anySource && worldSize > 1:
		return nil
	case op.Peer < 0 || op.Peer >= worldSize:
		return fmt.Errorf("%w: %v with peer %d, want 0 to %d", ErrInvalidOp, op.Kind, op.Peer, worldSize-1)
	case op.Peer == rank:
		return fmt.Errorf("%w: %v with itself (rank %d)", ErrInvalidOp, op.Kind, rank)
	}
	return nil
}

func (op *Op) validateReduce() error {
	if !op.Reduce.Valid() {
		return fmt.Errorf("%w: %v with %v", ErrInvalidOp, op.Kind, op.Reduce)
	}
	if op.PerRank < 0 || op.PerRank > math.MaxInt32 { // a product with the world size is a Divisor
		return fmt.Errorf("%w: %v with %d tensors per rank, want 0 (one) to %d", ErrInvalidOp, op.Kind, op.PerRank, math.MaxInt32)
	}
	if op.Divisor < 0 {
		return fmt.Errorf("%w: %v with divisor %d, want 0 (the world size) or more", ErrInvalidOp, op.Kind, op.Divisor)
	}
	if op.Reduce == tensor.PreMulSum && (math.IsNaN(op.Factor) || math.IsInf(op.Factor, 0)) {
		return fmt.Errorf("%w: %v with factor %v, want a finite one", ErrInvalidOp, op.Kind, op.Factor)
	}
	if len(op.In) == 0 {
		return nil // validateShape says what is missing
	}
	t := op.In[0]
	if err := t.DType().Reduces(op.Reduce); err != nil {
		return asOpError(err)
	}
	if t.DType().IsFloat8() && t.Device().Type == tensor.DeviceCPU {
		return fmt.Errorf("%w: %v of %v on the CPU; only devices have its arithmetic", ErrUnsupported, op.Reduce, t.DType())
	}
	return nil
}

// validateTensors checks what holds for tensors of every kind of op.
func (op *Op) validateTensors() error {
	var first tensor.Tensor
	for side, tensors := range [2][]tensor.Tensor{op.In, op.Out} {
		name := [2]string{"In", "Out"}[side]
		if len(tensors) > MaxTensors {
			return fmt.Errorf("%w: %v with %d tensors in %s, want at most %d",
				ErrInvalidOp, op.Kind, len(tensors), name, MaxTensors)
		}
		for i := range tensors {
			t := &tensors[i]
			switch {
			case !t.DType().Valid():
				return fmt.Errorf("%w: %v: %s[%d] is no tensor", ErrInvalidOp, op.Kind, name, i)
			case !t.Contiguous():
				return fmt.Errorf("%w: %v: %s[%d] is not contiguous (%v); copy it into one that is",
					ErrInvalidOp, op.Kind, name, i, *t)
			}
			if first.IsNone() {
				first = *t
			}
			// Whether one op may be over several devices of a type is the backend's
			// business.
			if t.DType() != first.DType() || t.Device().Type != first.Device().Type {
				return fmt.Errorf("%w: %v: %s[%d] is %v on %v, others are %v on %v; one op takes one dtype and type of device",
					ErrInvalidOp, op.Kind, name, i, t.DType(), t.Device(), first.DType(), first.Device())
			}
		}
	}
	return nil
}

// validateShape checks how many tensors there are on each side, and that those
// sizes match that must match on one rank.
func (op *Op) validateShape(rank, worldSize int) error {
	isRoot := rank == op.Root
	switch op.Kind {
	case KindAllReduce:
		return op.wantPairs()
	case KindReduce:
		if isRoot {
			return op.wantPairs()
		}
		return op.wantCounts(atLeastOne, 0)
	case KindBroadcast:
		if isRoot || len(op.In) > 0 {
			return op.wantPairs()
		}
		return op.wantCounts(0, atLeastOne)
	case KindAllGather:
		return op.wantSlot(1, worldSize, 0, rank)
	case KindGather:
		if isRoot {
			return op.wantSlot(1, worldSize, 0, rank)
		}
		return op.wantCounts(1, 0)
	case KindScatter:
		if isRoot {
			return op.wantSlot(worldSize, 1, rank, 0)
		}
		return op.wantCounts(0, 1)
	case KindReduceScatter:
		return op.wantSlot(worldSize, 1, rank, 0)
	case KindAllToAll:
		return op.wantSlot(worldSize, worldSize, rank, rank)
	case KindSend:
		return op.wantCounts(1, 0)
	case KindRecv:
		return op.wantCounts(0, 1)
	default: // barrier, ballot
		return op.wantCounts(0, 0)
	}
}

// atLeastOne stands for any positive count in wantCounts.
const atLeastOne = -1

func (op *Op) wantCounts(in, out int) error {
	counts := [2]int{len(op.In), len(op.Out)}
	for side, want := range [2]int{in, out} {
		got, name := counts[side], [2]string{"In", "Out"}[side]
		if want == atLeastOne {
			if got == 0 {
				return fmt.Errorf("%w: %v with no tensors in %s, want at least 1", ErrInvalidOp, op.Kind, name)
			}
			continue
		}
		if got != want {
			return fmt.Errorf("%w: %v with %d tensors in %s, want %d", ErrInvalidOp, op.Kind, got, name, want)
		}
	}
	return nil
}

// wantPairs checks that In[i] and Out[i] go together.
func (op *Op) wantPairs() error {
	if len(op.In) == 0 {
		return op.wantCounts(atLeastOne, atLeastOne)
	}
	if err := op.wantCounts(len(op.In), len(op.In)); err != nil {
		return err
	}
	for i := range op.In {
		if in, out := op.In[i].Len(), op.Out[i].Len(); in != out {
			return fmt.Errorf("%w: %v: In[%d] has %d elements, Out[%d] has %d", ErrInvalidOp, op.Kind, i, in, i, out)
		}
	}
	return nil
}

// wantSlot checks the counts, and that this rank's own slot has one size.
func (op *Op) wantSlot(in, out, ownIn, ownOut int) error {
	if err := op.wantCounts(in, out); err != nil {
		return err
	}
	if a, b := op.In[ownIn].Len(), op.Out[ownOut].Len(); a != b {
		return fmt.Errorf("%w: %v: In[%d] has %d elements, Out[%d] has %d", ErrInvalidOp, op.Kind, ownIn, a, ownOut, b)
	}
	return nil
}

// RequireCPU refuses an op whose tensors the CPU cannot address; backends
// without device support call it after Validate.
func (op *Op) RequireCPU() error {
	for _, sub := range op.Batch {
		if err := sub.RequireCPU(); err != nil {
			return err
		}
	}
	for _, tensors := range [2][]tensor.Tensor{op.In, op.Out} {
		for i := range tensors {
			if d := tensors[i].Device(); d.Type != tensor.DeviceCPU {
				return fmt.Errorf("%w: %v of a tensor on %v, want cpu", ErrInvalidOp, op.Kind, d)
			}
		}
	}
	return nil
}

// EffectiveDivisor is what Avg divides by in a group of worldSize ranks.
func (op *Op) EffectiveDivisor(worldSize int) int {
	if op.Divisor == 0 {
		return worldSize
	}
	return op.Divisor
}
