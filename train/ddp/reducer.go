package ddp

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/skerry-ft/skerry/internal/problems"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// The sizes of DistributedDataParallel's buckets.
const (
	DefaultBucketBytes      = 25 << 20
	DefaultFirstBucketBytes = 1 << 20
)

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

	// FirstBucketBytes is BucketBytes of the first bucket, so that the first op
	// starts early; 0 means DefaultFirstBucketBytes, or BucketBytes if that is
	// less. It may not exceed BucketBytes.
	FirstBucketBytes int

	// FindUnused allows steps in which Ready is not called for every gradient:
	// the others go as they are. Without it Reduce names them in an error.
	FindUnused bool
}

func (o *Options) fill() error {
	var bad problems.List
	bad.Want(o.BucketBytes >= 0, "BucketBytes", o.BucketBytes, "0 or more")
	bad.Want(o.FirstBucketBytes >= 0, "FirstBucketBytes", o.FirstBucketBytes, "0 or more")
	o.BucketBytes = cmp.Or(o.BucketBytes, DefaultBucketBytes)
	o.FirstBucketBytes = cmp.Or(o.FirstBucketBytes, min(DefaultFirstBucketBytes, o.BucketBytes))
	bad.Want(o.BucketBytes < 0 || o.FirstBucketBytes <= o.BucketBytes,
		"FirstBucketBytes", o.FirstBucketBytes, "at most BucketBytes, %d", o.BucketBytes)
	return bad.Err()
}

// Reducer averages the gradients of one model.
type Reducer struct {
	manager Manager
	options Options
	params  []Param
	buckets []*bucket
	where   []place // by parameter

	ready    []bool // by parameter, in this step
	launched int    // buckets under way, always the first ones
	noSync   bool   // inside NoSync
	weight   weight // in this step
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
	if err := o.fill(); err != nil {
		return nil, fmt.Errorf("ddp: %w", err)
	}
	if err := check(params); err != nil {
		return nil, fmt.Errorf("ddp: %w", err)
	}
	r := &Reducer{
		manager: m, options: o, params: params,
		where: make([]place, len(params)), ready: make([]bool, len(params)),
	}
	r.fillBuckets()
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
func (r *Reducer) fillBuckets() {
	sizes := make(map[*bucket]int)
	open := make(map[tensor.DType]*bucket)
	for i := len(r.params) - 1; i >= 0; i-- {
		grad := r.params[i].Grad
		b := open[grad.DType()]
		limit := r.options.BucketBytes
		if len(r.buckets) > 0 && b == r.buckets[0] {
			limit = r.options.FirstBucketBytes
		}
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
// anybody. It panics if i is out of range or was ready in this step already. Inside NoSync it does nothing.
func (r *Reducer) Ready(i int) {
	if r.noSync {
		return
	}
	if r.ready[i] {
		panic(fmt.Sprintf("ddp: gradient %q is ready for the second time in one step", r.params[i].Name))
	}
	r.ready[i] = true
	at := r.where[i]
	r.weight.copy(at.bucket.flat.Bytes()[at.from:at.to], r.params[i].Grad)
	at.bucket.ready++
	for r.launched < len(r.buckets) {
		b := r.buckets[r.launched]
		if b.ready < len(b.params) {
			return
		}
		b.work = r.manager.Group().AllReduceAsync(b.flat, r.weight.op())
		r.launched++
	}
}

// Reduce ends the reduction of a step: gradients that were not ready go as they
// are, and when it returns nil every gradient is the average over the
// participants, as Weigh weighs them, or the step's error has been reported to the manager. Over a
// plain group it returns the step's error. Else it returns one only when ctx
// ends: its cause, after the group was aborted. The Reducer is then ready for the
// next step. Inside NoSync it does nothing and returns nil.
func (r *Reducer) Reduce(ctx context.Context) error {
	if r.noSync {
		return nil
	}
	unused := r.finish()
	if r.options.FindUnused || r.weight.empty() {
		unused = nil
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
	r.launched, r.weight = 0, weight{}
	if err == nil && len(unused) > 0 {
		err = r.failed(&UnusedError{Params: unused})
	}
	if err != nil {
		return fmt.Errorf("reduce gradients: %w", err)
	}
	return nil
}

// finish makes the gradients ready that are not, and returns their names. They are
// reduced even where that is an error, or the other ranks would wait for them.
func (r *Reducer) finish() []string {
	var unused []string
	for i, ready := range r.ready {
		if !ready {
			unused = append(unused, r.params[i].Name)
			r.Ready(i)
		}
	}
	return unused
}

// wait waits for one bucket and copies it back. It does not return before the
// group has let go of the bucket's memory.
func (r *Reducer) wait(ctx context.Context, b *bucket) error {
	if err := r.manager.Group().Wait(ctx, b.work); err != nil {
		if ctx.Err() != nil {
			return err
		}
		return r.failed(err)
	}
	for _, i := range b.params {
		at := r.where[i]
		copy(r.params[i].Grad.Bytes(), b.flat.Bytes()[at.from:at.to])
	}
	return nil
}
