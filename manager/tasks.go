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
