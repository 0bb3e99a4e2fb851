package manager

import (
	"context"
	"testing"
	"testing/synctest"
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
		if err := a.attempt(t.Context(), grads); err != nil || !a.m.together() {
			t.Fatalf("alone, after a step: %v, together %t", err, a.m.together())
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
		if a.m.together() {
			t.Error("the run may end, while a newcomer waits to be let in")
		}
		for a.m.NumParticipants() < 2 {
			if err := a.attempt(t.Context(), grads); err != nil {
				t.Fatal(err)
			}
		}
	})
}
