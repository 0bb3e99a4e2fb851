// Package reap does what the first process of a container must: it takes the status of
// orphans that have ended, which stay zombies else, until the container may have no more
// processes. Each data loader of a trainer that was killed is such an orphan.
//
// It has no goroutines of its own: Run works until its ctx ends.
package reap

import (
	"bytes"
	"context"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// every is the time between two looks. Children that this program has started itself are
// waited for, and are zombies for milliseconds: what is one at looks looks in a row is an
// orphan.
const (
	every = 2 * time.Second
	looks = 3
)

// First tells whether this process is the first of its container, and orphans are its own.
func First() bool { return os.Getpid() == 1 }

// Run reaps orphans until ctx ends.
func Run(ctx context.Context) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	seen := make(map[int]int)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			seen = look(seen, zombies(os.Getpid()))
		}
	}
}

// look counts at how many looks in a row each process was a zombie, and reaps those that are
// orphans.
func look(seen map[int]int, now []int) map[int]int {
	next := make(map[int]int)
	for _, pid := range now {
		if next[pid] = seen[pid] + 1; next[pid] == looks {
			_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil) // what it ended with is of no interest
			delete(next, pid)
		}
	}
	return next
}

// zombies are the children of a process that have ended and were not waited for.
func zombies(parent int) (pids []int) {
	names, err := os.ReadDir("/proc")
	if err != nil {
		return nil // the next look may have them
	}
	for _, name := range names {
		pid, err := strconv.Atoi(name.Name())
		if err != nil {
			continue
		}
		text, err := os.ReadFile("/proc/" + name.Name() + "/stat")
		if err != nil {
			continue
		}
		// The name, in parentheses, may hold anything; behind it are state and parent.
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		if len(fields) > 1 && fields[0] == "Z" && fields[1] == strconv.Itoa(parent) {
			pids = append(pids, pid)
		}
	}
	return pids
}
