package manager

import (
	"context"
	"sync"
)

// tasks is work that Run's goroutines do: whoever adds some need not wait for
// Run to have begun. Safe for concurrent use.
type tasks struct {
	wake chan struct{} // capacity 1

	mu struct {
		sync.Mutex

		queue []func(context.Context)
	}
}

// add queues f. It may be called with a lock held: nothing runs here.
func (t *tasks) add(f func(context.Context)) {
	t.mu.Lock()
	t.mu.queue = append(t.mu.queue, f)
	t.mu.Unlock()
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// start is add of work that can be stopped: f's ctx ends with Run's, or by a call of
// what start returns, also one before f begins.
func (t *tasks) start(f func(context.Context)) context.CancelCauseFunc {
	ctx, cancel := context.WithCancelCause(context.Background())
	t.add(func(run context.Context) {
		defer cancel(nil)
		defer context.AfterFunc(run, func() { cancel(context.Cause(run)) })()
		f(ctx)
	})
	return cancel
}

// run starts each task on its own goroutine, and returns when ctx has ended and
// all of them have.
func (t *tasks) run(ctx context.Context) {
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
