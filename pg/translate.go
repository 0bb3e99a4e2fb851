package pg

import (
	"fmt"
	"math"
	"sync"

	"github.com/skerry-ft/skerry/tensor"
)

// translate makes the op below that stands for r's: ranks are the members', and
// a member that does not participate contributes nothing that counts.
func (m *Managed) translate(r *managedRelay, roster Roster) (Op, error) {
	op := *r.Op()
	if len(roster.Participants) == 0 {
		return op, fmt.Errorf("%w: %v with no participants", ErrNotParticipating, op.Kind)
	}
	r.State.roster = roster
	if op.Kind != KindBatch {
		return m.translateOne(r, op)
	}
	return m.translateBatch(r, op)
}

// translateBatch translates every op of a batch, in memory of the relay's.
func (m *Managed) translateBatch(r *managedRelay, op Op) (Op, error) {
	for i, sub := range op.Batch {
		if sub == nil || sub.Kind == KindBatch || sub.Kind == KindBallot {
			r.call.forgetBatch()
			return op, r.Op().validateBatch(0, 1)
		}
		below, err := m.translateOne(r, *sub)
		if err != nil {
			r.call.forgetBatch()
			return op, fmt.Errorf("op %d of the batch: %w", i, err)
		}
		c := m.subs.Get().(*call)
		r.call.subs = append(r.call.subs, c)
		r.call.batch = append(r.call.batch, c.prepare(below))
	}
	op.Batch = r.call.batch
	return op, nil
}

// translateOne is translate for an op that is no batch. R has the roster.
func (m *Managed) translateOne(r *managedRelay, op Op) (Op, error) {
	roster := r.State.roster
	self, count := roster.ParticipantRank(), len(roster.Participants)
	if err := op.expand(count); err != nil {
		return op, err
	}
	if op.Kind == KindReduce && self != op.Root {
		op.Out = nil // the verb could not know that this is not the root
	}
	if err := op.validateFor(self, count); err != nil {
		return op, err
	}
	if op.Kind.Reduces() && op.Reduce == tensor.Avg && op.Divisor == 0 {
		op.Divisor = count
	}
	if roster.everybody() {
		return op, nil
	}
	switch op.Kind {
	case KindReduce, KindBroadcast, KindGather, KindScatter:
		op.Root = roster.Participants[op.Root]
	case KindSend, KindRecv:
		if op.Peer != AnySource {
			op.Peer = roster.Participants[op.Peer]
		}
	}
	if self < 0 {
		if err := m.contributeNothing(r, &op); err != nil {
			return op, err
		}
	}
	return op, m.widenSlots(&op, roster)
}

// validateFor checks an op against the participants. For a member that is none
// of them (self < 0) the checks of own slots are those of participant 0, and
// it is never the root.
func (op *Op) validateFor(self, count int) error {
	if self >= 0 {
		return op.Validate(self, count)
	}
	switch op.Kind {
	case KindAllGather, KindReduceScatter, KindAllToAll:
		return op.Validate(0, count)
	case KindSend, KindRecv:
		return fmt.Errorf("%v: %w", op.Kind, ErrNotParticipating)
	}
	if op.Root >= count {
		return fmt.Errorf("%w: %v with root %d, want 0 to %d", ErrInvalidOp, op.Kind, op.Root, count-1)
	}
	return op.Validate(count, count+1)
}

// contributeNothing takes the caller's contribution out of the op of a member
// that does not participate, and its memory where it is to receive nothing.
func (m *Managed) contributeNothing(r *managedRelay, op *Op) (err error) {
	switch op.Kind {
	case KindAllReduce, KindReduce, KindReduceScatter:
		identity := func(i int) (tensor.Tensor, error) { return m.identityFor(op, i) }
		op.In, err = generate(len(op.In), identity)
	case KindBroadcast:
		op.In = nil
	case KindAllToAll:
		in := op.In
		op.In, err = generate(len(in), func(i int) (tensor.Tensor, error) { return blankLike(in[i]) })
	}
	if err != nil {
		return err
	}
	switch op.Kind {
	case KindGather:
		r.State.result = fmt.Errorf("%v: %w", op.Kind, ErrNotParticipating)
	case KindScatter, KindReduceScatter, KindAllToAll:
		r.State.result = fmt.Errorf("%v: %w", op.Kind, ErrNotParticipating)
		out := op.Out
		op.Out, err = generate(len(out), func(i int) (tensor.Tensor, error) { return blankLike(out[i]) })
	}
	return err
}

// widenSlots turns one slot per participant into one per member. The slots of
// the others are as large as the first participant's, since backends may want
// all equal; what lies in them counts for nothing.
func (m *Managed) widenSlots(op *Op, roster Roster) (err error) {
	switch op.Kind {
	case KindAllGather, KindGather:
		op.Out, err = widen(op.Out, roster, blankLike)
	case KindScatter:
		op.In, err = widen(op.In, roster, blankLike)
	case KindReduceScatter:
		op.In, err = widen(op.In, roster, func(t tensor.Tensor) (tensor.Tensor, error) {
			return m.blanks.identity(t, op)
		})
	case KindAllToAll:
		if op.In, err = widen(op.In, roster, blankLike); err != nil {
			return err
		}
		op.Out, err = widen(op.Out, roster, blankLike)
	}
	return err
}

// widen puts slots, one per participant, where the participants are among the
// members, and blank(slots[0]) elsewhere. No slots stay none: this rank is not
// the root.
func widen(slots []tensor.Tensor, roster Roster, blank func(like tensor.Tensor) (tensor.Tensor, error)) ([]tensor.Tensor, error) {
	if len(slots) == 0 {
		return nil, nil
	}
	return generate(roster.WorldSize, func(rank int) (tensor.Tensor, error) {
		if p := roster.participantOf(rank); p >= 0 {
			return slots[p], nil
		}
		return blank(slots[0])
	})
}

// identityFor is what a member that does not participate contributes instead of
// op.In[i]. Device memory cannot be had here, so on a device it is written over
// a tensor that the result will overwrite anyway.
func (m *Managed) identityFor(op *Op, i int) (tensor.Tensor, error) {
	t := op.In[i]
	mem, offset := t.Memory()
	if mem == nil {
		return m.blanks.identity(t, op)
	}
	if op.Kind != KindAllReduce || !t.SameMemory(op.Out[i]) {
		return tensor.Tensor{}, fmt.Errorf("%w: %v out of place on %v by a member that does not participate",
			ErrUnsupported, op.Kind, t.Device())
	}
	host, err := m.blanks.identity(t, op)
	if err != nil {
		return tensor.Tensor{}, err
	}
	if err := mem.CopyFromHost(offset, host.Bytes()); err != nil {
		return tensor.Tensor{}, fmt.Errorf("write identity to %v: %w", t.Device(), err)
	}
	return t, nil
}

// blankLike is fresh host memory of t's dtype and length.
func blankLike(t tensor.Tensor) (tensor.Tensor, error) {
	if t.Device().Type != tensor.DeviceCPU {
		return tensor.Tensor{}, fmt.Errorf("%w: verb with a slot per rank on %v while not all members participate",
			ErrUnsupported, t.Device())
	}
	return tensor.New(t.DType(), t.Len()), nil
}

func generate(n int, at func(i int) (tensor.Tensor, error)) ([]tensor.Tensor, error) {
	ts := make([]tensor.Tensor, n)
	for i := range ts {
		var err error
		if ts[i], err = at(i); err != nil {
			return nil, err
		}
	}
	return ts, nil
}

// blanks keeps identity elements, which are only ever read, so that ops of any
// number share them. The zero value is ready; safe for concurrent use.
type blanks struct {
	mu struct {
		sync.Mutex

		cache map[blankKey]tensor.Tensor // the longest asked for so far
	}
}

type blankKey struct {
	dtype    tensor.DType
	op       tensor.ReduceOp
	negative bool // sign of the factor
}

// identity is host memory of t's dtype and length with op's identity element.
func (b *blanks) identity(t tensor.Tensor, op *Op) (tensor.Tensor, error) {
	key := blankKey{dtype: t.DType(), op: op.Reduce, negative: math.Signbit(op.Factor)}
	b.mu.Lock()
	defer b.mu.Unlock()
	kept := b.mu.cache[key]
	if kept.Len() < t.Len() || kept.IsNone() {
		kept = tensor.New(t.DType(), t.Len())
		if err := tensor.Identity(kept.Bytes(), t.DType(), op.Reduce, op.Factor); err != nil {
			return tensor.Tensor{}, asOpError(err)
		}
		if b.mu.cache == nil {
			b.mu.cache = make(map[blankKey]tensor.Tensor)
		}
		b.mu.cache[key] = kept
	}
	return kept.Flat(0, t.Len()).ShapedLike(t), nil // Check compares shapes
}

// drop frees the memory.
func (b *blanks) drop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.cache = nil
}
