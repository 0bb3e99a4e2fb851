package powersgd

import (
	"errors"
	"fmt"

	"github.com/skerry-ft/skerry/tensor"
	"github.com/skerry-ft/skerry/train/ddp"
)

// power is a bucket of which some gradients are compressed.
type power struct {
	of      *ddp.Bucket
	flat    tensor.Tensor // of it
	hook    *Hook
	parts   []part
	lefts   tensor.Tensor     // what is averaged first: every P, and the gradients that are sent as they are
	rights  tensor.Tensor     // what is averaged second: every Q
	line    []float32         // scratch: a row of a result
	average func() ddp.Future // and rebuild, bound once
	rebuild func() error
	unit    float32 // what an error memory counts for in the step
	share   float32
}

// part is a gradient of a bucket.
type part struct {
	mat         *matrix // nil: sent as it is
	index       int     // of the parameter
	from, to    int     // in the bucket
	left, right int     // where it begins in lefts and rights
}

// Reduce compresses the bucket, from step Start on.
func (h *Hook) Reduce(b *ddp.Bucket) ddp.Future {
	if h.now < h.cfg.Start {
		b.AllReduce(b.Tensor())
		return ddp.Future{}
	}
	k, err := h.keep(b)
	if err != nil {
		return ddp.Failed(err)
	}
	if k.rights.Len() == 0 {
		b.AllReduce(b.Tensor())
		return ddp.Future{}
	}
	h.mine = b.Rank() >= 0
	k.unit, k.share = 1, float32(b.Share())
	if b.Op() == tensor.Sum { // the sum counts the error memory of each for one, the average for a part
		k.unit = 1 / float32(max(b.Size(), 1))
	}
	if err := k.project(); err != nil {
		return ddp.Failed(err)
	}
	b.AllReduce(k.lefts)
	return ddp.Then(k.average)
}

// keep is the memory of a bucket, made when it is new.
func (h *Hook) keep(b *ddp.Bucket) (*power, error) {
	for len(h.kept) <= b.Index() {
		h.kept = append(h.kept, nil)
	}
	if k := h.kept[b.Index()]; k != nil && k.of == b {
		return k, nil
	}
	if b.Tensor().Device() != tensor.CPU() {
		return nil, fmt.Errorf("bucket on %v, want host memory", b.Tensor().Device())
	}
	k := &power{of: b, flat: b.Tensor(), hook: h}
	lefts, rights, longest := 0, 0, 0
	for i := range b.Len() {
		p := part{index: b.Param(i), left: lefts, right: rights}
		p.from, p.to = b.Range(i)
		if p.index >= len(h.mats) {
			return nil, errors.New("hook was made for fewer parameters, want those of the Reducer")
		}
		p.mat = h.mats[p.index]
		switch m := p.mat; {
		case m == nil:
			lefts += p.to - p.from
		case m.n*m.m != p.to-p.from:
			return nil, fmt.Errorf("hook was made for a %q of %d elements, want %d", b.Name(i), m.n*m.m, p.to-p.from)
		default:
			lefts += len(m.p)
			rights += len(m.q)
			longest = max(longest, m.m)
		}
		k.parts = append(k.parts, p)
	}
	k.line = make([]float32, longest)
	var err error
	if rights > 0 {
		if k.lefts, err = b.Alloc(b.Tensor().DType(), lefts); err != nil {
			return nil, err
		}
		if k.rights, err = b.Alloc(b.Tensor().DType(), rights); err != nil {
			return nil, err
		}
	}
	k.average, k.rebuild = k.averageLefts, k.rebuildResults
	h.kept[b.Index()] = k
	return k, nil
}

// project fills lefts: P = (gradient + error) * Q.
func (k *power) project() error {
	h := k.hook
	for _, p := range k.parts {
		m, grad := p.mat, k.flat.Flat(p.from, p.to)
		if m == nil {
			if err := tensor.Convert(k.lefts.Flat(p.left, p.left+grad.Len()), grad); err != nil {
				return err
			}
			continue
		}
		m.used = true
		if err := tensor.Convert(tensor.Of(m.work), grad); err != nil {
			return err
		}
		if m.err != nil {
			addScaled(m.work, k.unit, m.err)
		}
		h.guess(p)
		columns(m.p, m.work, m.next, m.n, m.m)
		if err := tensor.Convert(k.lefts.Flat(p.left, p.left+len(m.p)), tensor.Of(m.p)); err != nil {
			return err
		}
	}
	return nil
}

// guess is the right factor that a step begins with: that of the last one that counts, or
// one that is drawn. A column of it that has vanished would stay zero, and is drawn too. It
// is orthonormal in either case: the last one is as large as the gradients, and P would be as
// their square, which 16 bits do not hold.
func (h *Hook) guess(p part) {
	m := p.mat
	if h.cfg.NoWarmStart {
		h.draw.fill(m.next, drawn{param: p.index, step: h.now})
	} else {
		copy(m.next, m.q)
		for j := range m.rank {
			if col := m.next[j*m.m : (j+1)*m.m]; vanishes(col) {
				h.draw.fill(col, drawn{param: p.index, step: h.now, column: j})
			}
		}
	}
	orthogonalize(m.next, m.m, float32(h.cfg.Epsilon))
}

// averageLefts takes the averages of the left factors, and starts on the right ones.
func (k *power) averageLefts() ddp.Future {
	for _, p := range k.parts {
		m := p.mat
		if m == nil {
			out := k.flat.Flat(p.from, p.to)
			if err := tensor.Convert(out, k.lefts.Flat(p.left, p.left+out.Len())); err != nil {
				return ddp.Failed(err)
			}
			continue
		}
		if err := tensor.Convert(tensor.Of(m.p), k.lefts.Flat(p.left, p.left+len(m.p))); err != nil {
			return ddp.Failed(err)
		}
		orthogonalize(m.p, m.n, float32(k.hook.cfg.Epsilon))
		columnsTransposed(m.next, m.work, m.p, m.n, m.m)
		if err := tensor.Convert(k.rights.Flat(p.right, p.right+len(m.next)), tensor.Of(m.next)); err != nil {
			return ddp.Failed(err)
		}
	}
	k.of.AllReduce(k.rights)
	return ddp.Finally(k.rebuild)
}

// rebuildResults makes the results of the averages, and the error memory.
func (k *power) rebuildResults() error {
	for _, p := range k.parts {
		m := p.mat
		if m == nil {
			continue
		}
		if err := tensor.Convert(tensor.Of(m.next), k.rights.Flat(p.right, p.right+len(m.next))); err != nil {
			return err
		}
		for i := range m.n {
			line := k.line[:m.m]
			row(line, m.p, m.next, i, m.n)
			if err := tensor.Convert(k.flat.Flat(p.from+i*m.m, p.from+(i+1)*m.m), tensor.Of(line)); err != nil {
				return err
			}
			lack := m.work[i*m.m : (i+1)*m.m]
			addScaled(lack, -k.share, line)
			if k.unit != 1 {
				for x := range lack {
					lack[x] /= k.unit
				}
			}
		}
	}
	return nil
}
