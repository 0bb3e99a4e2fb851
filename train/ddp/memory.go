package ddp

import (
	"fmt"

	"github.com/skerry-ft/skerry/tensor"
)

// allocate makes the memory of all buckets, of each dtype at once.
func (r *Reducer) allocate() error {
	sizes := make(map[tensor.DType]int)
	for _, e := range r.extents {
		sizes[e.dtype] += e.elements
	}
	r.arenas = make(map[tensor.DType]tensor.Tensor, len(sizes))
	for dtype, n := range sizes {
		t, err := r.options.Alloc(dtype, n)
		switch {
		case err != nil:
			return fmt.Errorf("allocate buckets of %d elements of %v: %w", n, dtype, err)
		case t.DType() != dtype || t.Len() != n || !t.Contiguous():
			return fmt.Errorf("made %v by Alloc, want %d elements of %v", t, n, dtype)
		case t.Device() != tensor.CPU() && !r.options.Views:
			return fmt.Errorf("made %v by Alloc, want host memory without Views", t)
		}
		r.arenas[dtype] = t
	}
	return nil
}

// allocatePlan makes memory for the plan where all buckets are, if that is a device: the group
// need have no backend for the host then.
func (r *Reducer) allocatePlan() error {
	if !r.planned || len(r.arenas) == 0 {
		return nil
	}
	for _, arena := range r.arenas {
		if arena.Device() == tensor.CPU() {
			return nil // the group has a backend for the host
		}
	}
	n := len(r.plan.words)
	t, err := r.options.Alloc(tensor.Int32, n)
	if err != nil {
		return fmt.Errorf("allocate the plan: %w", err)
	}
	if t.DType() != tensor.Int32 || t.Len() != n || !t.Contiguous() || t.Device() == tensor.CPU() {
		return fmt.Errorf("made %v by Alloc, want %d elements of int32 on the device", t, n)
	}
	r.plan.there = t
	return nil
}

// arrange fills the buckets in an order.
func (r *Reducer) arrange(order []int) {
	r.order = order
	spans, where := lay(order, r.extents, r.options.limits())
	r.where = where
	r.buckets = make([]*Bucket, len(spans))
	for i, s := range spans {
		arena := r.arenas[s.dtype]
		r.buckets[i] = &Bucket{
			index: i, last: i == len(spans)-1, params: s.params,
			flat: arena.Flat(s.from, s.to), run: &run{reducer: r},
		}
	}
}

// makeViews gives the gradients their places in the buckets.
func (r *Reducer) makeViews() error {
	if !r.options.Views {
		return nil
	}
	for i, p := range r.params {
		at := r.where[i]
		t, err := r.buckets[at.bucket].flat.Flat(at.from, at.to).Reshape(p.Shape...)
		if err != nil {
			return err
		}
		r.params[i].Grad, r.shapes[i] = t, t
	}
	return nil
}
