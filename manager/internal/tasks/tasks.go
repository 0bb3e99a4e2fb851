// Package tasks runs work on goroutines of one owner, its Run. It starts none itself
// before that; each has ended when Run returns.
package tasks

import (
	"context"
	"sync"
)

// Tasks is work that Run's goroutines do: a caller that adds some need not wait for
// Run to have begun. Safe for concurrent use; New makes one.
type Tasks struct {
	wake chan struct{} // capacity 1

	mu struct {
		sync.Mutex

		queue []func(context.Context)
	}
}

// New makes a Tasks without work.
func New() *Tasks { return &Tasks{wake: make(chan struct{}, 1)} }

// Add queues f. It may be called with a lock held: nothing runs here.
func (t *Tasks) Add(f func(context.Context)) {
	t.mu.Lock()
	t.mu.queue = append(t.mu.queue, f)
	t.mu.Unlock()
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// Start is Add of work that can be stopped: f's ctx ends with Run's, or by a call of
// what Start returns, also one before f begins.
func (t *Tasks) Start(f func(context.Context)) context.CancelCauseFunc {
	stopped, stop := context.WithCancelCause(context.Background())
	t.Add(func(run context.Context) {
		defer stop(nil)
		ctx, cancel := context.WithCancelCause(run)
		defer cancel(nil)
		if stopped.Err() != nil { // f sees it from its first line on
			cancel(context.Cause(stopped))
		}
		defer context.AfterFunc(stopped, func() { cancel(context.Cause(stopped)) })()
		f(ctx)
	})
	return stop
}

// Run starts each task on its own goroutine, and returns when ctx has ended and
// all of them have.
func (t *Tasks) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		t.mu.Lock()
		queue := t.mu.queue
		t.mu.queue = nil
		t.mu.Unlock()
		for _, f := range queue {
			wg.Go(func() { f(ctx) })
		}
		select {
		case <-ctx.Done():
			return
		case <-t.wake:
		}
	}
}
