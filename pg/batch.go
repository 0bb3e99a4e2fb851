package pg

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/skerry-ft/skerry/tensor"
)

// validateBatch checks every op of a batch.
func (op *Op) validateBatch(rank, worldSize int) error {
	if len(op.Batch) == 0 || len(op.Batch) > MaxBatch {
		return fmt.Errorf("%w: batch of %d ops, want 1 to %d", ErrInvalidOp, len(op.Batch), MaxBatch)
	}
	if err := op.wantCounts(0, 0); err != nil {
		return err
	}
	for i, sub := range op.Batch {
		switch {
		case sub == nil:
			return fmt.Errorf("%w: op %d of the batch is nil", ErrInvalidOp, i)
		case sub.Kind == KindBatch || sub.Kind == KindBallot:
			return fmt.Errorf("%w: op %d of the batch is a %v", ErrInvalidOp, i, sub.Kind)
		}
		if err := sub.Validate(rank, worldSize); err != nil {
			return fmt.Errorf("op %d of the batch: %w", i, err)
		}
	}
	return nil
}

// Each calls f for op, or for every op of a batch.
func (op *Op) Each(f func(*Op)) {
	if op.Kind != KindBatch {
		f(op)
		return
	}
	for _, sub := range op.Batch {
		f(sub)
	}
}

// A batchRun is a batch under way at a backend that takes its ops one by one.
type batchRun struct {
	op   *Op
	work *Work
	done func(error) // one, made once

	mu struct {
		sync.Mutex

		left int
		err  error
	}
}

func newBatchRun() *batchRun {
	r := &batchRun{}
	r.done = r.one
	return r
}

// one notes that an op is done, or, the last time, that all were submitted.
func (r *batchRun) one(err error) {
	r.mu.Lock()
	if r.mu.err == nil {
		r.mu.err = err
	}
	r.mu.left--
	last, first := r.mu.left == 0, r.mu.err
	r.mu.Unlock()
	if !last {
		return
	}
	op, work := r.op, r.work
	op.Seq, op.Epoch, op.Round = op.Batch[0].Seq, op.Batch[0].Epoch, op.Batch[0].Round
	work.Complete(first)
	work.Release()
}

// SubmitBatch carries out a KindBatch op by submitting its ops to b one after
// the other, for backends that have nothing better. The batch is done when all
// are, with the first error. An op without a deadline gets the batch's.
//
// A backend validates the batch first, so that no op starts if another is
// malformed.
func SubmitBatch(b interface{ Submit(op *Op) *Work }, op *Op) *Work {
	r := op.batchRun()
	r.op, r.work = op, NewWork(op)
	r.mu.Lock()
	r.mu.left, r.mu.err = len(op.Batch)+1, nil
	r.mu.Unlock()
	work := r.work
	for _, sub := range op.Batch {
		if sub.Deadline.IsZero() {
			sub.Deadline = op.Deadline
		}
		w := b.Submit(sub)
		if h := w.Helper(); h != nil { // before Then, after which w may serve another op
			work.SetHelper(h)
		}
		w.Then(r.done)
	}
	r.done(nil)
	return work
}

func (op *Op) batchRun() *batchRun {
	c := op.call
	if c == nil {
		return newBatchRun()
	}
	if c.run == nil {
		c.run = newBatchRun()
	}
	return c.run
}

// SendOp is the op of Send, for a batch.
func SendOp(t tensor.Tensor, e Envelope) *Op {
	return &Op{Kind: KindSend, In: []tensor.Tensor{t}, Peer: e.Peer, Tag: e.Tag}
}

// RecvOp is the op of Recv, for a batch. Op.Source is the sender once the batch
// is done.
func RecvOp(t tensor.Tensor, e Envelope) *Op {
	return &Op{Kind: KindRecv, Out: []tensor.Tensor{t}, Peer: e.Peer, Tag: e.Tag}
}

// Batch starts several ops as one and waits for all of them: the first error
// is returned. Ballots and batches cannot be part of it.
//
// Every rank that an op concerns must issue it too, though not in one batch.
// Sends and receives of a batch never wait for one another, whatever the
// backend; so a ring of exchanges is one batch of a send and a receive.
func (g *Group) Batch(ctx context.Context, ops []*Op) error {
	if len(ops) == 0 || len(ops) > MaxBatch {
		return fmt.Errorf("%w: batch of %d ops, want 1 to %d", ErrInvalidOp, len(ops), MaxBatch)
	}
	c := g.takeBatch(len(ops))
	defer g.releaseBatch(c)
	for i, op := range ops {
		if op == nil {
			return fmt.Errorf("%w: op %d of the batch is nil", ErrInvalidOp, i)
		}
		c.subs[i].prepare(*op)
	}
	err := g.wait(ctx, c)
	for i, op := range ops {
		done := c.batch[i]
		op.Seq, op.Epoch, op.Round, op.Source = done.Seq, done.Epoch, done.Round, done.Source
	}
	return err
}

// BatchAsync starts a batch. The group owns ops until the Work is done.
func (g *Group) BatchAsync(ops []*Op) *Work {
	c := new(call)
	c.prepare(Op{Kind: KindBatch, Batch: ops})
	return g.submit(&c.op)
}

// BatchSendRecv is Batch for sends and receives only: batched point-to-point.
func (g *Group) BatchSendRecv(ctx context.Context, ops []*Op) error {
	if err := onlyPointToPoint(ops); err != nil {
		return err
	}
	return g.Batch(ctx, ops)
}

func onlyPointToPoint(ops []*Op) error {
	var errs []error
	for i, op := range ops {
		if op == nil || !op.Kind.PointToPoint() {
			errs = append(errs, fmt.Errorf("%w: op %d of the batch is no send or receive", ErrInvalidOp, i))
		}
	}
	return errors.Join(errs...)
}

// takeBatch prepares a pooled call for a batch of n ops, whose calls are
// pooled too. The ops are still to be prepared.
func (g *Group) takeBatch(n int) *call {
	c := g.take(Op{Kind: KindBatch})
	for range n {
		sub := g.take(Op{})
		c.subs = append(c.subs, sub)
		c.batch = append(c.batch, &sub.op)
	}
	c.op.Batch = c.batch
	return c
}

// releaseBatch lets go of c and what it holds.
func (g *Group) releaseBatch(c *call) {
	c.forgetBatch()
	c.release(heldByCaller)
}

// forgetBatch lets go of the ops of a batch that c holds.
func (c *call) forgetBatch() {
	for i, sub := range c.subs {
		sub.forget()
		c.subs[i], c.batch[i] = nil, nil
	}
	c.subs, c.batch = c.subs[:0], c.batch[:0]
}

// forget lets go of a call whose op may never have been submitted.
func (c *call) forget() {
	if !c.taken.Load() {
		c.release(heldByBackend) // no Work was made of it
	}
	c.release(heldByCaller)
}
