package monitor

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// guarded is a monitor with one field.
type guarded struct {
	Monitor

	n int
}

func (g *guarded) add(n int) {
	g.Lock()
	defer g.Unlock()
	g.n += n
	g.Broadcast()
}

func (g *guarded) reaches(n int) func() bool { return func() bool { return g.n >= n } }

// What is so already is not waited for, even by a caller whose ctx has ended.
func TestAwaitLooksFirst(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var g guarded
	if err := g.Await(ctx, time.Nanosecond, g.reaches(0)); err != nil {
		t.Errorf("awaited what was so: %v", err)
	}
}

// Every goroutine that waits looks again after each change, and returns when its own
// condition holds.
func TestAwaitLooksAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var g guarded
		got := make(chan int, 2)
		for _, n := range []int{2, 3} {
			go func() {
				if err := g.Await(t.Context(), 0, g.reaches(n)); err != nil {
					t.Errorf("awaited %d: %v", n, err)
				}
				got <- n
			}()
		}
		synctest.Wait()
		for i, want := range []int{0, 2, 3} {
			g.add(1)
			synctest.Wait()
			select {
			case n := <-got:
				if n != want {
					t.Errorf("after change %d the goroutine that waits for %d returned, want %d", i+1, n, want)
				}
			default:
				if want != 0 {
					t.Errorf("after change %d no goroutine returned, want that which waits for %d", i+1, want)
				}
			}
		}
	})
}

// A wait ends at its limit, counted from its begin and not from the last change, or
// with ctx's cause.
func TestAwaitEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var g guarded
		began := time.Now()
		time.AfterFunc(time.Second, func() { g.add(1) })
		if err := g.Await(t.Context(), 90*time.Second, g.reaches(2)); !errors.Is(err, ErrTimeout) {
			t.Errorf("got %v, want ErrTimeout", err)
		}
		if took := time.Since(began); took != 90*time.Second {
			t.Errorf("it took %v, want the limit, 90s", took)
		}
		cause := errors.New("closed")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(cause) })
		if err := g.Await(ctx, 0, g.reaches(2)); !errors.Is(err, cause) {
			t.Errorf("got %v, want ctx's cause", err)
		}
	})
}
