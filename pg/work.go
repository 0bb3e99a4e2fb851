package pg

import (
	"context"
	"sync"
)

// Work is an op under way. The zero value is not usable; backends make one
// with NewWork. Safe for concurrent use.
type Work struct {
	op *Op

	mu struct {
		sync.Mutex

		finished bool
		err      error
		done     chan struct{} // made on demand
		then     []func(error)
	}
}

// NewWork returns a pending Work for op.
func NewWork(op *Op) *Work { return &Work{op: op} }

// Finished returns a Work that is done with err, for ops that never start.
func Finished(op *Op, err error) *Work {
	w := NewWork(op)
	w.Complete(err)
	return w
}

// Op is the op that the Work stands for; read its results only once done.
func (w *Work) Op() *Op { return w.op }

// Complete ends the Work; only the backend that made it calls this, once
// nothing can touch the op's tensors any more. The first call wins. Functions
// given to Then run on the caller's goroutine before waiters wake.
func (w *Work) Complete(err error) {
	w.mu.Lock()
	if w.mu.finished {
		w.mu.Unlock()
		return
	}
	then := w.mu.then
	w.mu.then = nil
	w.mu.Unlock()
	for _, f := range then {
		f(err)
	}
	w.mu.Lock()
	w.mu.finished, w.mu.err = true, err
	late, done := w.mu.then, w.mu.done
	w.mu.then = nil
	w.mu.Unlock()
	for _, f := range late {
		f(err)
	}
	if done != nil {
		close(done)
	}
}

// Then runs f(err) when the Work is done: at once if it is already, else on the
// goroutine that completes it. f must not block.
func (w *Work) Then(f func(error)) {
	w.mu.Lock()
	if !w.mu.finished {
		w.mu.then = append(w.mu.then, f)
		w.mu.Unlock()
		return
	}
	err := w.mu.err
	w.mu.Unlock()
	f(err)
}

// Done is closed when the Work is done.
func (w *Work) Done() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.done == nil {
		w.mu.done = make(chan struct{})
		if w.mu.finished {
			close(w.mu.done)
		}
	}
	return w.mu.done
}

// Err is nil while the Work is pending and after success.
func (w *Work) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.err
}

// Wait blocks until the Work is done and returns its error. When ctx ends
// first it returns context.Cause(ctx) and the op goes on: the caller who wants
// to end it calls Abort and waits again before it touches the tensors.
func (w *Work) Wait(ctx context.Context) error {
	select {
	case <-w.Done():
		return w.Err()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
