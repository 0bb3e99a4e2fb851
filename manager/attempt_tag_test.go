package manager

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
)

// An attempt's tag marks that attempt alone: what is reported to that of the step
// before is dropped, what is reported to that of the step under way discards it on all
// replicas.
func TestAttemptMarksItselfAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.trainer("a"), w.trainer("b")
		var last Attempt
		failed := false
		a.before = func(_ context.Context, step int64) error {
			now := a.m.Attempt()
			last.ReportError(errors.New("late"))
			now.ReportError(nil)
			if err := a.m.Errored(); err != nil || !now.Open() || last.Open() {
				return fmt.Errorf("step %d: marked with %w, open %t, the one before %t", step, err, now.Open(), last.Open())
			}
			if step == 5 && !failed {
				failed = true
				now.ReportError(errors.New("a checksum differs"))
			}
			last = now
			return nil
		}
		a.start(10)
		b.start(10)
		w.reaches(10, a, b)
		w.agree(a, b)
		for _, tr := range []*trainer{a, b} {
			if s := tr.m.Stats(); s.Discards != 1 {
				t.Errorf("%s: %d discards, want 1", tr.name, s.Discards)
			}
		}
	})
}

// Do reports what its function returns, and ends one that waits for ever.
func TestAttemptDoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.trainer("a")
		hangs := true
		a.before = func(ctx context.Context, step int64) error {
			at := a.m.Attempt()
			if !at.Do(ctx, func(context.Context) error { return nil }) || a.m.Errored() != nil {
				return fmt.Errorf("step %d: %w of a function that succeeds", step, a.m.Errored())
			}
			if step != 3 || !hangs {
				return nil
			}
			hangs = false
			ok := at.Do(ctx, func(ctx context.Context) error {
				<-ctx.Done()
				return context.Cause(ctx)
			})
			if err := a.m.Errored(); ok || !errors.Is(err, context.DeadlineExceeded) {
				return fmt.Errorf("a function that hangs: %t, step marked with %w", ok, err)
			}
			return nil
		}
		a.start(5)
		w.reaches(5, a)
		if s := a.m.Stats(); s.Discards != 1 {
			t.Errorf("%d discards, want 1", s.Discards)
		}
	})
	if (Attempt{}).Do(t.Context(), func(context.Context) error { return nil }) {
		t.Error("the zero Attempt did something")
	}
}
