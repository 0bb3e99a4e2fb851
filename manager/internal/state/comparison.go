package state

import (
	"context"
	"sync/atomic"

	"github.com/skerry-ft/skerry/quorum"
)

// Comparison is the digest of a slice of this rank's state, or of the whole, which is made beside
// the forward pass, while nothing may write to the tensors. Whoever needs it first
// makes it: a task, or the ballot. It takes the save callbacks' time, and a slice's.
// Safe for concurrent use.
type Comparison struct {
	parts *Parts
	At    quorum.Position // of the state
	Whole bool
	step  int64 // that the ballot is about

	claim atomic.Bool   // somebody makes it, or has ended it without
	made  chan struct{} // closed then
	sum   Sum           // to be read after that
}

// Compare prepares the comparison of a state that is at a position, for the ballot about step.
func (p *Parts) Compare(at quorum.Position, step int64, whole bool) *Comparison {
	return &Comparison{parts: p, At: at, Whole: whole, step: step, made: make(chan struct{})}
}

// Result makes the sum, or waits for whoever does. It is none once ctx ends, or the
// comparison has ended without it.
func (c *Comparison) Result(ctx context.Context) Sum {
	if c == nil {
		return Sum{}
	}
	c.claimed(func() { c.sum = c.parts.Sum(c.step, c.Whole) })
	select {
	case <-c.made:
		return c.sum
	case <-ctx.Done():
		return Sum{}
	}
}

// End returns once nothing reads the tensors for c, and nothing will: it waits for a
// save callback that has been called, and for nothing else.
func (c *Comparison) End() {
	if c == nil {
		return
	}
	c.claimed(func() {})
	<-c.made
}

// claimed runs f for the first caller; the others go on at once.
func (c *Comparison) claimed(f func()) {
	if c.claim.CompareAndSwap(false, true) {
		defer close(c.made)
		f()
	}
}
