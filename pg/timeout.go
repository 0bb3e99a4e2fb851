package pg

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Timeout gives every op a deadline, and aborts the epoch of one that is still
// pending then, so that it holds for backends that keep no deadlines too.
type Timeout struct {
	*Layer

	limit  time.Duration
	timers sync.WaitGroup // those that may still abort
}

// NewTimeout puts Timeout around b, which it owns from now on. Limit counts
// from Submit and also bounds Configure; an op's own deadline holds if it is
// earlier.
func NewTimeout(b Backend, limit time.Duration) *Timeout {
	return &Timeout{Layer: NewLayer(b), limit: limit}
}

// Redecorate puts around a subgroup's backend a Timeout with the same limit.
func (t *Timeout) Redecorate(inner Backend, _ []int) Backend { return NewTimeout(inner, t.limit) }

// Configure configures the backend within the limit.
func (t *Timeout) Configure(ctx context.Context, c Config) error {
	ctx, cancel := context.WithTimeoutCause(ctx, t.limit, fmt.Errorf("pg: configure took more than %v: %w",
		t.limit, context.DeadlineExceeded))
	defer cancel()
	return t.track.configure(ctx, t.backend, c)
}

// Submit starts op with a deadline.
func (t *Timeout) Submit(op *Op) *Work {
	deadline := time.Now().Add(t.limit)
	if op.Deadline.IsZero() || op.Deadline.After(deadline) {
		op.Deadline = deadline
	} else {
		deadline = op.Deadline
	}
	kind := op.Kind
	epoch, _ := t.epochs()
	work := t.backend.Submit(op)
	t.timers.Add(1)
	timer := time.AfterFunc(time.Until(deadline), func() {
		defer t.timers.Done()
		t.backend.Abort(epoch, fmt.Errorf("pg: %v took more than %v: %w", kind, t.limit, context.DeadlineExceeded))
	})
	work.Then(func(error) {
		if timer.Stop() {
			t.timers.Done()
		}
	})
	return work
}

// Close closes the backend, which ends every op, and waits for the timers.
func (t *Timeout) Close() error {
	err := t.backend.Close()
	t.timers.Wait()
	return err
}
