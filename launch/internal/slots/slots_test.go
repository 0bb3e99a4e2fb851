package slots

import "testing"

// The preferred slot is had if it is free, else the lowest that is; one that was given back is
// free.
func TestTake(t *testing.T) {
	t.Parallel()
	var s Slots
	for _, step := range []struct{ preferred, want int }{{1, 1}, {4, 4}, {1, 0}, {4, 2}} {
		if got := s.Take(step.preferred); got != step.want {
			t.Errorf("slot %d, want %d", got, step.want)
		}
	}
	s.Give(1)
	if got := s.Take(4); got != 1 {
		t.Errorf("slot %d, want 1, which was given back", got)
	}
}
