// Package sweep finds the processes that a start has left behind, and ends them.
//
// Such a process is in the session of one of its ranks, or carries the start's mark in the
// environment that it was begun with, which its children inherit. Where there is no /proc, on
// systems other than Linux, it is in the process group of one of the ranks. The package needs
// no right but that of the user, and starts no goroutines.
package sweep

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"time"
)

// Variable has the marks of a process's starts: one, or those of nested launchers, a,b.
const Variable = "SKERRY_RUN_MARK"

// Target says which processes are meant.
type Target struct {
	// Mark is a start's, or what the marks of several starts have before a dot.
	Mark string
	// Sessions are those of its ranks.
	Sessions Sessions
}

// Sessions are sessions that were begun, by the process ids of their leaders, with when each
// leader began, as Began tells. The kernel gives a number to another process once a session is
// empty: one whose leader began at another time is not the one that is meant.
type Sessions map[int]uint64

// again is how long a process that was told to end is given before the next look.
const again = 10 * time.Millisecond

// End ends all that there are, but this process: with SIGTERM, and after grace, or at once if
// that is 0, with SIGKILL. It returns when none is left, or ctx ends: a process that the
// kernel holds in a call ends when that does. It returns how many there were.
func End(ctx context.Context, t Target, grace time.Duration) (found int, err error) {
	begun, signal := time.Now(), syscall.SIGTERM
	told := make(map[int]bool)
	for {
		pids, err := Find(t)
		if err != nil || len(pids) == 0 {
			return found, err
		}
		found = max(found, len(pids))
		if time.Since(begun) >= grace {
			signal = syscall.SIGKILL
		}
		for _, pid := range pids {
			if signal == syscall.SIGKILL || !told[pid] {
				_ = syscall.Kill(pid, signal) // gone already is as good
				told[pid] = true
			}
		}
		timer := time.NewTimer(again)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return found, fmt.Errorf("processes %v do not end, though they were killed: %w", pids, context.Cause(ctx))
		}
	}
}

// among tells whether the mark is one of those, or the beginning of one up to a dot.
func (t Target) among(marks string) bool {
	for mark := range strings.SplitSeq(marks, ",") {
		if rest, ok := strings.CutPrefix(mark, t.Mark); ok && t.Mark != "" && (rest == "" || rest[0] == '.') {
			return true
		}
	}
	return false
}
