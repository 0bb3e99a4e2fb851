package manager

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A step that has learned that a replica waits to be let in is not the last: the wish is
// in its ballots, and asked for when it ends.
func TestTogetherSeesWhoWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.trainer("a"), w.trainer("b")
		a.start(5)
		w.reaches(5, a)
		grads := make([]float32, modelSize)
		if err := a.attempt(t.Context(), grads); err != nil || !a.m.together(5) {
			t.Fatalf("alone, after a step: %v, together %t", err, a.m.together(5))
		}
		a.before = func(context.Context, int64) error {
			a.before = nil
			b.start(1 << 40)
			eventually(t, "the wish", func() bool {
				a.m.mu.Lock()
				defer a.m.mu.Unlock()
				return a.m.mu.rank.Wanted() != ""
			})
			return nil
		}
		before := a.m.Step()
		if err := a.attempt(t.Context(), grads); err != nil || a.m.Step() == before {
			t.Fatalf("step %d: %v", a.m.Step(), err)
		}
		if a.m.together(before) {
			t.Error("the run may end, while a newcomer waits to be let in")
		}
		for a.m.NumParticipants() < 2 {
			if err := a.attempt(t.Context(), grads); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// Of two that want two at least one ends before the other: that can commit nothing any more, and
// ends after its linger all the same. (It made steps that came to nothing for ever.)
func TestFinishWhenTooFewAreLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.tune = func(c *Config) { c.MinReplicas = 2 }
		a, b := w.trainer("a").start(5), w.trainer("b").start(5)
		w.reaches(5, a, b)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		ended := make(chan error, 2)
		for tr, linger := range map[*trainer]time.Duration{a: 0, b: 10 * time.Second} {
			go func() {
				grads := make([]float32, modelSize)
				ended <- tr.m.Finish(ctx, linger, func(ctx context.Context) error { return tr.attempt(ctx, grads) })
			}()
		}
		for range 2 {
			if err := <-ended; err != nil {
				t.Errorf("one of the two ended with %v", err)
			}
		}
	})
}
