package baby

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
	"unsafe"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// A mapping finds out where the tensors of one op lie, and copies those that
// the child cannot reach.
type mapping struct {
	child    *child
	pending  *pending
	dtype    tensor.DType
	segments []*segment // that the child must have
	refs     []ref      // memory of the refs
	first    int        // what was staged for the op at hand begins here
	scratch  []byte     // the op as the child reads it
}

// begin makes m ready for an op, and keeps its memory.
func (m *mapping) begin(c *child, p *pending) {
	clear(m.segments)
	*m = mapping{child: c, pending: p, segments: m.segments[:0], refs: m.refs[:0], scratch: m.scratch[:0]}
}

// newRefs gives n of them.
func (m *mapping) newRefs(n int) []ref {
	from := len(m.refs)
	m.refs = append(m.refs, make([]ref, n)...) // compiled to growing in place
	return m.refs[from : from+n : from+n]
}

// all places an op, and those that a batch holds.
func (m *mapping) all(op *pg.Op, limit time.Duration) (p placed, err error) {
	p = placed{op: op, limit: limit}
	p.in, p.out, err = m.place(op)
	p.dtype = m.dtype
	for _, sub := range op.Batch {
		if err != nil {
			break
		}
		part := placed{op: sub, limit: limit}
		if !sub.Deadline.IsZero() {
			part.limit = max(time.Until(sub.Deadline), 1)
		}
		part.in, part.out, err = m.place(sub)
		part.dtype = m.dtype
		p.batch = append(p.batch, part)
	}
	return p, err
}

// apart tells whether nothing that an op of a batch writes overlaps another of
// its tensors: then all can be staged before the first of them runs.
func apart(op *pg.Op) bool {
	type span struct {
		lo, hi uintptr
		out    bool
	}
	var all []span
	op.Each(func(sub *pg.Op) {
		for side, tensors := range [2][]tensor.Tensor{sub.In, sub.Out} {
			for _, t := range tensors {
				if b := t.Bytes(); len(b) > 0 {
					at := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
					all = append(all, span{at, at + uintptr(len(b)), side == 1})
				}
			}
		}
	})
	slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.lo, b.lo) })
	var read, written uintptr // where what came before ends
	for _, s := range all {
		if s.lo < written || s.out && s.lo < read {
			return false
		}
		if s.out {
			written = max(written, s.hi)
		} else {
			read = max(read, s.hi)
		}
	}
	return true
}

func (m *mapping) place(op *pg.Op) (in, out []ref, err error) {
	m.first = len(m.pending.staged)
	if len(op.In)+len(op.Out) == 0 {
		return nil, nil, nil
	}
	in, out = m.newRefs(len(op.In)), m.newRefs(len(op.Out))
	for i, t := range op.In {
		m.dtype = t.DType()
		if in[i], err = m.tensor(t, true, false); err != nil {
			return nil, nil, err
		}
	}
	for i, t := range op.Out {
		m.dtype = t.DType()
		if j := slices.IndexFunc(op.In, t.SameMemory); j >= 0 && len(in) > j {
			out[i] = in[j]
			m.alsoOut(t)
			continue
		}
		// A broadcast's result and a received message are written whole, so
		// what was there before need not travel.
		if out[i], err = m.tensor(t, false, true); err != nil {
			return nil, nil, err
		}
	}
	return in, out, nil
}

// alsoOut marks what was staged for t as a result, too.
func (m *mapping) alsoOut(t tensor.Tensor) {
	b := t.Bytes()
	for i := m.first; i < len(m.pending.staged); i++ {
		s := &m.pending.staged[i]
		if len(b) > 0 && len(s.host) == len(b) && &s.host[0] == &b[0] {
			s.out = true
		}
	}
}

// tensor places one.
func (m *mapping) tensor(t tensor.Tensor, fill, out bool) (ref, error) {
	if mem, offset := t.Memory(); mem != nil {
		return device(t, mem, offset)
	}
	b := t.Bytes()
	if len(b) == 0 {
		return ref{}, nil
	}
	if s, offset, ok := m.child.mem.find(b); ok {
		m.need(s)
		return ref{segment: s.id, offset: uint64(offset), count: uint64(t.Len())}, nil
	}
	blk, err := m.child.mem.stage(len(b))
	if err != nil {
		return ref{}, err
	}
	if fill {
		m.child.mem.copied.Add(int64(copy(blk.bytes, b)))
	}
	m.pending.staged = append(m.pending.staged, staged{blk, b, out})
	m.need(blk.seg)
	return ref{segment: blk.seg.id, offset: uint64(blk.offset), count: uint64(t.Len())}, nil
}

func (m *mapping) need(s *segment) {
	if !slices.Contains(m.segments, s) {
		m.segments = append(m.segments, s)
	}
}

func device(t tensor.Tensor, mem tensor.DeviceMemory, offset int) (ref, error) {
	handle, err := mem.Export()
	if errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, pg.ErrUnsupported) {
		err = fmt.Errorf("%w: %w", pg.ErrUnsupported, err)
	}
	if err != nil {
		return ref{}, fmt.Errorf("baby: export %v for the child: %w", t, err)
	}
	if len(handle) == 0 || len(handle) > maxHandleBytes {
		return ref{}, fmt.Errorf("baby: handle of %v has %d bytes, want 1 to %d", t, len(handle), maxHandleBytes)
	}
	return ref{
		device: true, index: uint32(t.Device().Index), bytes: uint64(mem.NumBytes()),
		offset: uint64(offset), count: uint64(t.Len()), handle: handle,
	}, nil
}
