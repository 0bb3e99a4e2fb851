package shell

import (
	"testing"
	"time"
)

// A job is forgotten when it was found unused for as long as it is kept: without a
// quorum for minutes, with one for a week. A replica that comes begins the time anew.
func TestIdleJobsAreForgotten(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_764_000_000, 0)
	var empty, formed Idle
	for _, tc := range []struct {
		at            time.Duration
		used          bool
		empty, formed bool
	}{
		{0, true, false, false},
		{emptyJobKept, false, false, false}, // found unused now, for the first time
		{2*emptyJobKept - 1, false, false, false},
		{2 * emptyJobKept, false, true, false},
		{2*emptyJobKept + 1, true, false, false},
		{3 * emptyJobKept, false, false, false},
		{3*emptyJobKept + idleJobKept - 1, false, true, false},
		{3*emptyJobKept + idleJobKept, false, true, true},
	} {
		now := start.Add(tc.at)
		if got := empty.Forget(now, tc.used, false); got != tc.empty {
			t.Errorf("after %v, used %v: a job without a quorum is forgotten: %v, want %v", tc.at, tc.used, got, tc.empty)
		}
		if got := formed.Forget(now, tc.used, true); got != tc.formed {
			t.Errorf("after %v, used %v: a job with a quorum is forgotten: %v, want %v", tc.at, tc.used, got, tc.formed)
		}
	}
}
