package pg

import (
	"context"
	"sync"

	"github.com/skerry-ft/skerry/tensor"
)

// Work is an op under way. The zero value is not usable; backends make one
// with NewWork. Safe for concurrent use.
type Work struct {
	op   *Op
	call *call // where the Work lies, if its memory is shared with the op's

	mu struct {
		sync.Mutex

		completing bool // the first Complete is running functions of then
		finished   bool
		err        error
		done       chan struct{} // made on demand
		first      func(error)   // the first function of Then: mostly the only one
		then       []func(error)
		helper     Helper
	}
}

// Helper lends goroutines that wait for a Work to its backend: an op whose
// messages lie in shared memory is brought forward sooner by who waits for it
// than by another goroutine that has to be woken, and has to wake the waiter.
type Helper interface {
	// Help brings pending ops forward until w is done, ctx has ended, or it would
	// have to sleep, whichever is first. Blocking verbs and Wait call it once,
	// before they sleep. Functions given to Then may run on the helping goroutine.
	Help(ctx context.Context, w *Work)
}

// SetHelper says who takes a hand from waiters. A backend calls it before its
// Submit returns, a decorator with what Helper gave for the Work below.
func (w *Work) SetHelper(h Helper) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.helper = h
}

// Helper is what SetHelper was given last, or nil.
func (w *Work) Helper() Helper {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.helper
}

// help lends the caller's goroutine to the backend, if it takes it.
func (w *Work) help(ctx context.Context) {
	if h := w.Helper(); h != nil {
		h.Help(ctx, w)
	}
}

// NewWork returns a pending Work for op. It takes the memory that a verb of
// Group set aside with the op, if that is free, and else allocates.
func NewWork(op *Op) *Work {
	if c := op.call; c != nil && c.taken.CompareAndSwap(false, true) {
		return &c.work
	}
	return &Work{op: op}
}

// Finished returns a Work that is done with err, for ops that never start. It
// is released already.
func Finished(op *Op, err error) *Work {
	w := NewWork(op)
	w.Complete(err)
	w.Release()
	return w
}

// Op is the op that the Work stands for; read its results only once done.
func (w *Work) Op() *Op { return w.op }

// Complete ends the Work; only the backend that made it calls this, once
// nothing can touch the op's tensors any more. The first call wins. Functions
// given to Then run on the caller's goroutine before waiters wake.
func (w *Work) Complete(err error) {
	w.mu.Lock()
	if w.mu.completing {
		w.mu.Unlock()
		return
	}
	w.mu.completing = true
	for w.mu.first != nil || len(w.mu.then) > 0 {
		first, then := w.mu.first, w.mu.then
		w.mu.first, w.mu.then = nil, nil
		w.mu.Unlock()
		if first != nil {
			first(err)
		}
		for _, f := range then {
			f(err)
		}
		w.mu.Lock()
	}
	w.mu.finished, w.mu.err = true, err
	done := w.mu.done
	w.mu.Unlock()
	if done != nil {
		close(done)
	}
	if w.call != nil && w.call.wake != nil {
		w.call.wake <- struct{}{} // capacity 1, and this is the only send
	}
}

// Release tells that the backend that made w keeps no reference to w or its op
// any more, so that their memory may serve another call. A backend calls it at
// most once, after Complete has returned and after its last use of both; it
// must be sure that no other goroutine of its own still holds w, say to abort
// it. Calling it is optional: without it blocking verbs allocate.
func (w *Work) Release() {
	if w.call != nil {
		w.call.release(heldByBackend)
	}
}

// Then runs f(err) when the Work is done: at once if it is already, else on the
// goroutine that completes it. f must not block.
func (w *Work) Then(f func(error)) {
	w.mu.Lock()
	if w.mu.finished {
		err := w.mu.err
		w.mu.Unlock()
		f(err)
		return
	}
	if w.mu.first == nil && len(w.mu.then) == 0 {
		w.mu.first = f
	} else {
		w.mu.then = append(w.mu.then, f)
	}
	w.mu.Unlock()
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

// Finished tells whether the Work is done.
func (w *Work) Finished() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.finished
}

// Err is nil while the Work is pending and after success.
func (w *Work) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.err
}

// Result is what the op gave: its outputs once it is done without an error, else
// nil. A verb into one tensor gives that tensor.
func (w *Work) Result() []tensor.Tensor {
	w.mu.Lock()
	ok := w.mu.finished && w.mu.err == nil
	w.mu.Unlock()
	switch {
	case !ok:
		return nil
	case !w.op.flat.IsNone():
		return []tensor.Tensor{w.op.flat}
	case w.op.Kind == KindBatch:
		var all []tensor.Tensor
		for _, sub := range w.op.Batch {
			if !sub.flat.IsNone() {
				all = append(all, sub.flat)
				continue
			}
			all = append(all, sub.Out...)
		}
		return all
	}
	return w.op.Out
}

// Source is the rank that the message of a finished receive came from.
func (w *Work) Source() int { return w.op.Source }

// Wait blocks until the Work is done and returns its error. When ctx ends
// first it returns context.Cause(ctx) and the op goes on: the caller who wants
// to end it calls Abort and waits again before it touches the tensors.
func (w *Work) Wait(ctx context.Context) error {
	w.help(ctx)
	select {
	case <-w.Done():
		return w.Err()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
