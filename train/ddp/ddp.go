package ddp

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// DefaultBucketBytes is DistributedDataParallel's bucket size.
const DefaultBucketBytes = 25 << 20

// Manager is what a Reducer needs of a *manager.Manager.
type Manager interface {
	// Group is the managed group: it queues ops until the step's quorum is there.
	Group() *pg.Group
	ReportError(err error)
}

// Param is a parameter whose gradient is averaged.
type Param struct {
	Name string
	Grad tensor.Tensor // contiguous host memory of a float or complex dtype
}

// Options tune a Reducer; the zero value is good.
type Options struct {
	// BucketBytes is how much is reduced as one op; 0 means
	// DefaultBucketBytes. Too low costs a message for every few gradients; too
	// high starts the first op late, with nothing left to overlap with.
	BucketBytes int
}

// Reducer averages the gradients of one model.
type Reducer struct {
	manager Manager
	params  []Param
	buckets []*bucket
	where   []place // by parameter

	ready    []bool // by parameter, in this step
	launched int    // buckets under way, always the first ones
}

// place says where a parameter lies in its bucket.
type place struct {
	bucket   *bucket
	from, to int // bytes
}

// bucket is gradients that are reduced as one op.
type bucket struct {
	params []int
	flat   tensor.Tensor
	ready  int // parameters copied in
	work   *pg.Work
}

// New makes a Reducer over params, given in the order of the forward pass. The
// gradients' memory must stay where it is.
func New(m Manager, params []Param, o Options) (*Reducer, error) {
	if o.BucketBytes < 0 {
		return nil, fmt.Errorf("ddp: BucketBytes = %d, want 0 or more", o.BucketBytes)
	}
	o.BucketBytes = cmp.Or(o.BucketBytes, DefaultBucketBytes)
	if err := check(params); err != nil {
		return nil, fmt.Errorf("ddp: %w", err)
	}
	r := &Reducer{
		manager: m, params: params,
		where: make([]place, len(params)), ready: make([]bool, len(params)),
	}
	r.fillBuckets(o.BucketBytes)
	return r, nil
}

func check(params []Param) error {
	var errs []error
	seen := make(map[string]bool, len(params))
	for i, p := range params {
		d := p.Grad.DType()
		switch {
		case seen[p.Name]:
			errs = append(errs, fmt.Errorf("parameter %d: name %q is taken", i, p.Name))
		case !d.IsFloat() && !d.IsComplex():
			errs = append(errs, fmt.Errorf("parameter %q: gradient is %v, want a float or complex dtype", p.Name, d))
		case p.Grad.NumBytes() != len(p.Grad.Bytes()):
			errs = append(errs, fmt.Errorf("parameter %q: gradient is %v, want contiguous host memory", p.Name, p.Grad))
		}
		seen[p.Name] = true
	}
	return errors.Join(errs...)
}

// fillBuckets deals the parameters out, last one first.
func (r *Reducer) fillBuckets(limit int) {
	sizes := make(map[*bucket]int)
	open := make(map[tensor.DType]*bucket)
	for i := len(r.params) - 1; i >= 0; i-- {
		grad := r.params[i].Grad
		b := open[grad.DType()]
		if b == nil || sizes[b]+grad.NumBytes() > limit {
			b = &bucket{}
			open[grad.DType()] = b
			r.buckets = append(r.buckets, b)
		}
		r.where[i] = place{bucket: b, from: sizes[b], to: sizes[b] + grad.NumBytes()}
		sizes[b] = r.where[i].to
		b.params = append(b.params, i)
	}
	for b, size := range sizes {
		dtype := r.params[b.params[0]].Grad.DType()
		b.flat = tensor.New(dtype, size/dtype.Size())
	}
}

// Ready says that the gradient of params[i] is final in this step. It copies it
// and starts the all-reduce of each bucket that is full, without waiting for
// anybody. It panics if i is out of range or was ready in this step already.
func (r *Reducer) Ready(i int) {
	if r.ready[i] {
		panic(fmt.Sprintf("ddp: gradient %q is ready for the second time in one step", r.params[i].Name))
	}
	r.ready[i] = true
	at := r.where[i]
	copy(at.bucket.flat.Bytes()[at.from:at.to], r.params[i].Grad.Bytes())
	at.bucket.ready++
	for r.launched < len(r.buckets) {
		b := r.buckets[r.launched]
		if b.ready < len(b.params) {
			return
		}
		b.work = r.manager.Group().AllReduceAsync(b.flat, tensor.Avg)
		r.launched++
	}
}

// Reduce ends the reduction of a step: gradients that were not ready go as they
// are, and when it returns nil every gradient is the average over the
// participants, or the step's error has been reported to the manager. It
// returns an error only when ctx ends: its cause, after the group was aborted. The
// Reducer is then ready for the next step.
func (r *Reducer) Reduce(ctx context.Context) error {
	for i, ready := range r.ready {
		if !ready {
			r.Ready(i)
		}
	}
	var err error
	for _, b := range r.buckets[:r.launched] {
		if werr := r.wait(ctx, b); err == nil {
			err = werr
		}
	}
	clear(r.ready)
	for _, b := range r.buckets {
		b.ready, b.work = 0, nil
	}
	r.launched = 0
	if err != nil {
		return fmt.Errorf("reduce gradients: %w", err)
	}
	return nil
}

// wait waits for one bucket and copies it back. It does not return before the
// group has let go of the bucket's memory.
func (r *Reducer) wait(ctx context.Context, b *bucket) error {
	if err := r.manager.Group().Wait(ctx, b.work); err != nil {
		if ctx.Err() != nil {
			return err
		}
		r.manager.ReportError(fmt.Errorf("reduce gradients: %w", err))
		return nil
	}
	for _, i := range b.params {
		at := r.where[i]
		copy(r.params[i].Grad.Bytes(), b.flat.Bytes()[at.from:at.to])
	}
	return nil
}
