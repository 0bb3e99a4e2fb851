package ddp

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/internal/problems"
	"github.com/skerry-ft/skerry/pg/debug"
	"github.com/skerry-ft/skerry/tensor"
)

// The sizes of DistributedDataParallel's buckets. Of a model below 200 MiB the buckets are smaller
// than DefaultBucketBytes: an eighth of its gradients, so that no more than that is left to reduce when the backward
// pass ends. A model of 25 MiB would else be one bucket, full with the last gradient.
const (
	DefaultBucketBytes      = 25 << 20
	DefaultFirstBucketBytes = 1 << 20

	// defaultBuckets is how many a model has at least, where they are not below DefaultFirstBucketBytes.
	defaultBuckets = 8
)

// MaxParams bounds how many parameters a Reducer takes.
const MaxParams = 1 << 20

// Param is a parameter whose gradient is averaged.
type Param struct {
	Name string

	// Grad is the gradient: contiguous host memory of a float or complex dtype, of
	// the parameter's shape where a hook looks at that (PowerSGD). Under
	// Options.Views it is the zero Tensor, and DType and Shape say what it will be.
	Grad  tensor.Tensor
	DType tensor.DType
	Shape []int
}

// Options tune a Reducer; the zero value is good. They are the same on all replicas, but
// for Alloc, Log and Debug.
type Options struct {
	// BucketBytes is how much is reduced as one op; 0 means an eighth of all
	// gradients, from DefaultFirstBucketBytes to DefaultBucketBytes. Too low costs a message for every few gradients; too
	// high starts the first op late, with nothing left to overlap with.
	BucketBytes int

	// FirstBucketBytes is BucketBytes of the first bucket, so that the first op
	// starts early; 0 means DefaultFirstBucketBytes, or BucketBytes if that is
	// less. It may not exceed BucketBytes.
	FirstBucketBytes int

	// FindUnused allows steps in which Ready is not called for every gradient:
	// the others go as they are. Without it Reduce names them in an error. Buckets
	// are then not rebuilt, for an order of arrival is that of one step.
	FindUnused bool

	// StaticGraph says that Ready is called for the same gradients in every step. The
	// first step that counts shows which; the others go as they are from then on,
	// and no bucket waits for them. It goes before FindUnused.
	StaticGraph bool

	// NoRebuild leaves the buckets as New has filled them: see the package comment.
	NoRebuild bool

	// Views lets the Reducer make the gradients' memory, in its buckets: Param.Grad is
	// empty, and Grad gives it. Nothing is copied then, and buckets are not rebuilt.
	// Source: DistributedDataParallel, gradient_as_bucket_view.
	Views bool

	// CheckReduction makes a step fail in which a Reduce was forgotten, with a
	// *ForgottenError, where Ready panics without it.
	CheckReduction bool

	// Hook reduces the buckets; nil: AllReduce.
	Hook Hook

	// Alloc makes the memory of buckets and hooks, at most once for each dtype and for
	// each bucket that a hook has; nil: tensor.New. A backend's own, as that of a
	// pg/baby.Backend, saves a copy; one that makes device memory needs Views. If all buckets
	// are on a device, it makes the plan's int32 words there as well, once.
	Alloc func(dtype tensor.DType, shape ...int) (tensor.Tensor, error)

	// Log gets the settings at debug level Info, and what Stats says of each step at
	// Detail. The zero Logger drops them. Debug is mostly debug.LevelFromEnv's.
	Log   zerolog.Logger
	Debug debug.Level
}

// fill sets the defaults for a model with so many bytes of gradients.
func (o *Options) fill(gradients int) error {
	var bad problems.List
	problems.NotNegative(&bad, "BucketBytes", o.BucketBytes)
	problems.NotNegative(&bad, "FirstBucketBytes", o.FirstBucketBytes)
	problems.Within(&bad, "Debug", o.Debug, debug.Off, debug.Detail)
	share := max(gradients/defaultBuckets, o.FirstBucketBytes, DefaultFirstBucketBytes)
	o.BucketBytes = cmp.Or(o.BucketBytes, min(share, DefaultBucketBytes))
	o.FirstBucketBytes = cmp.Or(o.FirstBucketBytes, min(DefaultFirstBucketBytes, o.BucketBytes))
	bad.Want(o.BucketBytes < 0 || o.FirstBucketBytes <= o.BucketBytes,
		"FirstBucketBytes", o.FirstBucketBytes, "at most BucketBytes, %d", o.BucketBytes)
	if o.Hook == nil {
		o.Hook = AllReduce{}
	}
	if o.Alloc == nil {
		o.Alloc = func(dtype tensor.DType, shape ...int) (tensor.Tensor, error) {
			return tensor.New(dtype, shape...), nil
		}
	}
	return bad.Err()
}

// rebuilds says whether buckets follow the order of arrival.
func (o *Options) rebuilds() bool {
	return !o.NoRebuild && !o.Views && (!o.FindUnused || o.StaticGraph)
}

// check returns what is wrong with params.
func (o *Options) check(params []Param) error {
	var errs []error
	if len(params) > MaxParams {
		return fmt.Errorf("%d parameters, want at most %d", len(params), MaxParams)
	}
	seen := make(map[string]bool, len(params))
	for i, p := range params {
		d := p.dtype()
		_, shapeErr := tensor.Elements(d, p.Shape)
		switch {
		case seen[p.Name]:
			errs = append(errs, fmt.Errorf("parameter %d: name %q is taken", i, p.Name))
		case !d.IsFloat() && !d.IsComplex():
			errs = append(errs, fmt.Errorf("parameter %q: gradient is %v, want a float or complex dtype", p.Name, d))
		case o.Views && !p.Grad.IsNone():
			errs = append(errs, fmt.Errorf("parameter %q: Grad is %v, want none under Views, but DType and Shape", p.Name, p.Grad))
		case o.Views && shapeErr != nil:
			errs = append(errs, fmt.Errorf("parameter %q: %w", p.Name, shapeErr))
		case !o.Views && (p.Grad.IsNone() || p.Grad.NumBytes() != len(p.Grad.Bytes())):
			errs = append(errs, fmt.Errorf("parameter %q: gradient is %v, want contiguous host memory (or Views)", p.Name, p.Grad))
		}
		seen[p.Name] = true
	}
	return errors.Join(errs...)
}

// gradientBytes is the size of all gradients; check has seen that each has one.
func gradientBytes(params []Param) int {
	sum := 0
	for _, p := range params {
		sum += p.elements() * p.dtype().Size()
	}
	return sum
}

func (p Param) dtype() tensor.DType {
	if p.Grad.IsNone() {
		return p.DType
	}
	return p.Grad.DType()
}

// elements is how many the gradient has; check has seen that it has a size.
func (p Param) elements() int {
	if !p.Grad.IsNone() {
		return p.Grad.Len()
	}
	n, err := tensor.Elements(p.DType, p.Shape)
	if err != nil {
		panic(fmt.Sprintf("ddp: parameter %q: %v", p.Name, err))
	}
	return n
}
