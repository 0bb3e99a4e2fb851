// Package otherproc says what the kernel tells of another process of this host, by /proc.
// Where it tells nothing, as of a process that is gone or in another container, the answer
// is no.
package otherproc

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
)

// Maps says whether the process of thread tid has memory of that name mapped.
func Maps(tid uint32, name string) bool {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", tid))
	return err == nil && bytes.Contains(maps, []byte(name))
}

// WantsProcessor says whether a thread of the process of thread tid is runnable, or waits for its
// memory. None is in a process that is stopped, frozen or dead.
func WantsProcessor(tid uint32) bool {
	group := fmt.Sprintf("/proc/%d/task", tid)
	threads, err := os.ReadDir(group)
	return err == nil && slices.ContainsFunc(threads, func(e os.DirEntry) bool {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			return false
		}
		stat, err := os.ReadFile(group + "/" + e.Name() + "/stat")
		// "id (name) state …": the name may hold anything.
		_, state, ok := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
		return err == nil && ok && len(state) > 0 && (state[0] == 'R' || state[0] == 'D')
	})
}
