package pg

import (
	"sync"
	"sync/atomic"

	"github.com/skerry-ft/skerry/tensor"
)

// A call is the memory of one op: the op, its Work, room for one tensor on
// each side, and a channel to wake the one goroutine that waits. Blocking verbs
// and decorators take calls from a pool, async verbs allocate one.
//
// It goes back to its pool when both its user and the backend have let go of
// it. A backend that never calls Work.Release leaves it to the collector.
type call struct {
	op      Op
	work    Work
	in, out [1]tensor.Tensor
	slots   [2][]tensor.Tensor // room for the slots of a flat op, In and Out
	subs    []*call            // of the ops of a batch
	batch   []*Op              // those ops
	run     *batchRun          // of a batch at a backend without batches
	wake    chan struct{}      // capacity 1: Complete never blocks

	taken    atomic.Bool   // work is in use
	released atomic.Uint32 // holders that have let go
	recycle  func()        // gives the memory back to its pool; nil: none
}

// The holders of a call.
const (
	heldByCaller = 1 << iota
	heldByBackend
	heldByNone = heldByCaller | heldByBackend
)

func newCall(recycle func()) *call {
	return &call{wake: make(chan struct{}, 1), recycle: recycle}
}

// poolCalls makes p a pool of calls, to which they go back.
func poolCalls(p *sync.Pool) {
	p.New = func() any {
		var c *call
		c = newCall(func() { p.Put(c) })
		return c
	}
}

// prepare makes c ready for op and returns the copy that c holds.
func (c *call) prepare(op Op) *Op {
	op.call = c
	c.op = op
	c.work.op, c.work.call = &c.op, c
	return &c.op
}

// single gives the op one tensor on each side; none stands for no tensor.
func (c *call) single(in, out tensor.Tensor) {
	if !in.IsNone() {
		c.in[0] = in
		c.op.In = c.in[:]
	}
	if !out.IsNone() {
		c.out[0] = out
		c.op.Out = c.out[:]
	}
}

func (c *call) release(holder uint32) {
	if c.recycle == nil {
		return
	}
	if old := c.released.Or(holder); old|holder != heldByNone || old == heldByNone {
		return
	}
	select {
	case <-c.wake:
	default:
	}
	c.op, c.in[0], c.out[0] = Op{}, tensor.Tensor{}, tensor.Tensor{}
	for side := range c.slots {
		clear(c.slots[side])
	}
	c.work.mu.completing, c.work.mu.finished = false, false
	c.work.mu.err, c.work.mu.done, c.work.mu.helper = nil, nil, nil
	c.released.Store(0)
	c.taken.Store(false)
	c.recycle()
}
