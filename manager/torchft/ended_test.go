package torchft

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// The transport cancels a call when its deadline passes, and may come before the timer of the
// call's ctx: the caller is told of a deadline all the same, and of a cancellation before it.
func TestACallIsOverByItsDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		cancel()
		if err := ended(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("canceled before its deadline: %v", err)
		}
		<-time.After(time.Second)
		if err := ended(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("canceled at its deadline: %v", err)
		}
	})
}
