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
