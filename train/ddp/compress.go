package ddp

import (
	"fmt"

	"github.com/skerry-ft/skerry/tensor"
)

// Compress is a Hook that reduces float32 and float64 buckets as 16-bit floats, and so
// sends a half or a quarter: each gradient is rounded to To, the inner hook reduces that,
// and the result is widened. With AllReduce inside, a gradient becomes the average over
// ranks of the rounded ones, folded in float32 and rounded to To once. What float16 cannot
// hold, beyond 65504, becomes an infinity. Buckets of other dtypes go to the inner hook as they are.
// Source: fp16_compress_hook, bf16_compress_hook and their wrappers in
// torch.distributed.algorithms.ddp_comm_hooks.default_hooks, which divide after they
// have rounded.
type Compress struct {
	to    tensor.DType
	inner Hook
	kept  []*compressed // by bucket
}

// NewCompress makes a Compress around inner; nil: AllReduce. It refuses a dtype other than
// Float16 and BFloat16.
func NewCompress(to tensor.DType, inner Hook) (*Compress, error) {
	if to != tensor.Float16 && to != tensor.BFloat16 {
		return nil, fmt.Errorf("ddp: to = %v, want float16 or bfloat16", to)
	}
	if inner == nil {
		inner = AllReduce{}
	}
	return &Compress{to: to, inner: inner}, nil
}

// compressed is a bucket of 16-bit floats.
type compressed struct {
	outer  *Bucket
	inside Bucket
	next   Future
	step   func() Future // advance, bound once
	end    func() error  // widen, bound once
	inner  Hook
}

// Reduce rounds the bucket and lets the inner hook reduce it.
func (c *Compress) Reduce(b *Bucket) Future {
	t := b.Tensor()
	if t.DType() != tensor.Float32 && t.DType() != tensor.Float64 {
		return c.inner.Reduce(b)
	}
	k, err := c.keep(b)
	if err == nil {
		err = tensor.Convert(k.inside.Tensor(), t)
	}
	if err != nil {
		return Failed(err)
	}
	return k.after(c.inner.Reduce(&k.inside))
}

// keep is the memory of a bucket, made when it is new.
func (c *Compress) keep(b *Bucket) (*compressed, error) {
	for len(c.kept) <= b.Index() {
		c.kept = append(c.kept, nil)
	}
	if k := c.kept[b.Index()]; k != nil && k.outer == b {
		return k, nil
	}
	half, err := b.Alloc(c.to, b.Tensor().Len())
	if err != nil {
		return nil, fmt.Errorf("allocate %v: %w", c.to, err)
	}
	k := &compressed{outer: b, inside: b.With(half), inner: c.inner}
	k.step, k.end = k.advance, k.widen
	c.kept[b.Index()] = k
	return k, nil
}

// after is what follows the inner hook's part.
func (k *compressed) after(next Future) Future {
	k.next = next
	switch {
	case next.err != nil:
		return next
	case next.then != nil:
		return Then(k.step)
	}
	return Finally(k.end)
}

// advance lets the inner Future go on.
func (k *compressed) advance() Future { return k.after(k.next.then()) }

// widen ends the inner Future, and widens what it gave.
func (k *compressed) widen() error {
	if k.next.finally != nil {
		if err := k.next.finally(); err != nil {
			return err
		}
	}
	return tensor.Convert(k.outer.Tensor(), k.inside.Tensor())
}

// Phase is the inner hook's.
func (c *Compress) Phase() int64 {
	if p, ok := c.inner.(Phased); ok {
		return p.Phase()
	}
	return 0
}

// Begin passes the phase on.
func (c *Compress) Begin(phase int64) {
	if p, ok := c.inner.(Phased); ok {
		p.Begin(phase)
	}
}

// Commit passes it on.
func (c *Compress) Commit() { commits(c.inner) }
