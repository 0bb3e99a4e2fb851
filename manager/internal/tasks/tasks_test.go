package tasks_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/manager/internal/tasks"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestRunWaitsForAll: work that is added before Run, and by other work, has ended when
// Run returns.
func TestRunWaitsForAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := tasks.New()
		var ended atomic.Int32
		work := func(ctx context.Context) {
			<-ctx.Done()
			ended.Add(1)
		}
		all.Add(work)
		all.Add(func(ctx context.Context) {
			all.Add(work)
			work(ctx)
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			all.Run(ctx)
		}()
		synctest.Wait()
		cancel()
		<-done
		if got := ended.Load(); got != 3 {
			t.Errorf("%d of 3 tasks had ended when Run returned", got)
		}
	})
}

// TestStopEndsOneTask: what Start returns ends its task alone, with its cause, also
// before the task has begun.
func TestStopEndsOneTask(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := tasks.New()
		why := errors.New("enough")
		causes := make(chan error, 2) // one of each task
		note := func(ctx context.Context) {
			<-ctx.Done()
			causes <- context.Cause(ctx)
		}
		early, late := all.Start(note), all.Start(note)
		early(why)
		ctx, cancel := context.WithCancelCause(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			all.Run(ctx)
		}()
		if got := <-causes; got != why {
			t.Errorf("a task that was stopped before it began ended with %v, want %v", got, why)
		}
		synctest.Wait()
		if len(causes) > 0 {
			t.Error("the other task has ended, too")
		}
		cancel(context.DeadlineExceeded)
		if got := <-causes; got != context.DeadlineExceeded {
			t.Errorf("Run's end ended the other task with %v, want Run's cause", got)
		}
		late(nil) // does nothing any more
		<-done
	})
}
