//go:build !linux

package sweep

import "syscall"

// Find lists the process groups of ranks that are not empty, as negative numbers, which stand
// for all that is in one.
func Find(t Target) (groups []int, err error) {
	for session := range t.Sessions {
		if syscall.Kill(-session, 0) == nil {
			groups = append(groups, -session)
		}
	}
	return groups, nil
}

// Empty lists the process groups of ranks that are empty.
func Empty(s Sessions) (empty []int, err error) {
	for session := range s {
		if syscall.Kill(-session, 0) == syscall.ESRCH {
			empty = append(empty, session)
		}
	}
	return empty, nil
}

// Began is not known here: 0.
func Began(int) uint64 { return 0 }
