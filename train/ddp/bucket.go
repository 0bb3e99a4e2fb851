package ddp

import (
	"context"
	"fmt"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// Bucket is gradients that are reduced together, as a Hook sees them. It is valid
// until the buckets are rebuilt: a hook that keeps memory for a bucket keeps it by
// Index, with the *Bucket that it is for.
type Bucket struct {
	index  int
	last   bool
	params []int
	flat   tensor.Tensor
	run    *run
}

// run is the reduction of a bucket, which buckets made by With share.
type run struct {
	reducer *Reducer
	ready   int // gradients that are in it
	ops     []pg.Pending
	used    int // of ops, started and not waited for
	next    Future
	done    bool
}

// Index is the bucket's place in the order of the step, from 0.
func (b *Bucket) Index() int { return b.index }

// Last says that no other bucket follows in the step.
func (b *Bucket) Last() bool { return b.last }

// Tensor is the gradients, one after the other, weighed if the step is (Weigh): what is
// to be reduced, and when the Future is done the result. It has one dimension.
func (b *Bucket) Tensor() tensor.Tensor { return b.flat }

// Len is how many gradients there are in the bucket.
func (b *Bucket) Len() int { return len(b.params) }

// Param is the index of the bucket's k-th parameter in the list that New was given.
func (b *Bucket) Param(k int) int { return b.params[k] }

// Name is the k-th parameter's.
func (b *Bucket) Name(k int) string { return b.run.reducer.params[b.params[k]].Name }

// Grad is the k-th parameter's part of Tensor, in the parameter's shape.
func (b *Bucket) Grad(k int) tensor.Tensor {
	i := b.params[k]
	at := b.run.reducer.where[i]
	return b.flat.Flat(at.from, at.to).ShapedLike(b.run.reducer.shapes[i])
}

// Range is where Grad(k) lies in Tensor, in elements.
func (b *Bucket) Range(k int) (from, to int) {
	at := b.run.reducer.where[b.params[k]]
	return at.from, at.to
}

// Op is how a bucket is reduced in this step: tensor.Avg, which divides by the number
// of participants, or in one that Weigh has weighed tensor.Sum.
func (b *Bucket) Op() tensor.ReduceOp { return b.run.reducer.step.weight.op() }

// Share is what this rank's gradients were multiplied by: 1, or mine/all of Weigh.
func (b *Bucket) Share() float64 { return b.run.reducer.step.weight.share() }

// Rank is this rank's among the participants of the step; -1 if what it gives does not
// count, as it is healed beside the step or is a spare. Size is their number. Both hold for the
// whole step, and are -1 and 0 in one that is lost already.
func (b *Bucket) Rank() int { return b.run.reducer.step.rank }

// Size is explained at Rank.
func (b *Bucket) Size() int { return b.run.reducer.step.size }

// With is the bucket with t in the place of Tensor, for a hook that has another hook
// reduce it. T has as many elements.
func (b *Bucket) With(t tensor.Tensor) Bucket {
	if t.Len() != b.flat.Len() {
		panic(fmt.Sprintf("ddp: Bucket.With %v, want %d elements", t, b.flat.Len()))
	}
	with := *b
	with.flat = t
	return with
}

// Alloc makes memory for a hook, as Options.Alloc does.
func (b *Bucket) Alloc(dtype tensor.DType, elements int) (tensor.Tensor, error) {
	return b.run.reducer.options.Alloc(dtype, elements)
}

// AllReduce starts an all-reduce of t, in place, with Op.
func (b *Bucket) AllReduce(t tensor.Tensor) {
	b.Start(pg.Op{Kind: pg.KindAllReduce, Reduce: b.Op()}, t, t)
}

// Start starts any collective on the Reducer's group; see pg.Pending. In steady state
// it allocates nothing.
func (b *Bucket) Start(op pg.Op, in, out tensor.Tensor) {
	b.StartOn(b.run.reducer.manager.Group(), op, in, out)
}

// StartOn starts a collective on another group, such as a subgroup.
func (b *Bucket) StartOn(g *pg.Group, op pg.Op, in, out tensor.Tensor) {
	r := b.run
	if r.used == len(r.ops) {
		r.ops = append(r.ops, pg.Pending{})
	}
	r.ops[r.used].Start(g, op, in, out)
	r.used++
}

// wait waits for the ops that were started, all of them, and returns the first error.
func (r *run) wait(ctx context.Context) error {
	var first error
	for i := range r.ops[:r.used] {
		if err := r.ops[i].Wait(ctx); err != nil && first == nil {
			first = err
		}
	}
	r.used = 0
	return first
}

// idle tells whether all ops that were started are done.
func (r *run) idle() bool {
	for i := range r.ops[:r.used] {
		if !r.ops[i].Done() {
			return false
		}
	}
	return true
}
