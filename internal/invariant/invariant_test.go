package invariant

import "testing"

func TestSometimes(t *testing.T) {
	const calls = 10_000
	count := func(percent int) (n int) {
		for range calls {
			if Sometimes(percent) {
				n++
			}
		}
		return n
	}
	if got := count(0); got != 0 {
		t.Errorf("0 %%: got %d of %d", got, calls)
	}
	want := func(percent, low, high int) {
		if !Enabled {
			low, high = 0, 0
		}
		if got := count(percent); got < low || got > high {
			t.Errorf("%d %%: got %d of %d, want %d to %d", percent, got, calls, low, high)
		}
	}
	want(100, calls, calls)
	want(20, calls/10, calls*3/10)
}
