// Package sweep finds the processes that a start has left behind, and ends them.
//
// Such a process is in the session of one of its ranks, or carries the start's mark in the
// environment that it was begun with, which its children inherit. It needs no right but
// that of the user, and starts no goroutines.
package sweep

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Variable has the marks of a process's starts: one, or those of nested launchers, a,b.
const Variable = "SKERRY_RUN_MARK"

// maxEnvironBytes bounds what is read of a process's environment.
const maxEnvironBytes = 4 << 20

// Target says which processes are meant.
type Target struct {
	// Mark is a start's, or what the marks of several starts have before a dot.
	Mark string
	// Sessions are those of its ranks.
	Sessions map[int]bool
}

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

// Find lists the processes that are meant and live; zombies do not.
func Find(t Target) (pids []int, err error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	defer dir.Close() //nolint:errcheck // it was read
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid == os.Getpid() {
			continue
		}
		session, alive := stat(pid)
		if alive && (t.Sessions[session] || t.marked(pid)) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// stat reads a process's session, and whether it lives.
func stat(pid int) (session int, alive bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, false
	}
	// The name, in parentheses, may hold anything; behind it are state, parent, group, session.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 4 {
		return 0, false
	}
	session, err = strconv.Atoi(fields[3])
	return session, err == nil && fields[0] != "Z" && fields[0] != "X"
}

// marked tells whether a process has the mark. Of another user's it cannot be read, and it
// is none of ours.
func (t Target) marked(pid int) bool {
	f, err := os.Open(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return false
	}
	defer f.Close() //nolint:errcheck // it was read
	env, err := io.ReadAll(io.LimitReader(f, maxEnvironBytes))
	if err != nil {
		return false
	}
	for v := range bytes.SplitSeq(env, []byte{0}) {
		if marks, ok := bytes.CutPrefix(v, []byte(Variable+"=")); ok {
			return t.among(string(marks))
		}
	}
	return false
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
