package sweep

import (
	"bytes"
	"os"

	"github.com/skerry-ft/skerry/internal/procs"
)

// Find lists the processes that are meant and live; zombies do not.
func Find(t Target) (pids []int, err error) {
	meant := t.Sessions.still()
	err = each(func(p procs.Process) {
		if p.Alive && p.PID != os.Getpid() && (meant[p.Session] || t.marked(p.PID)) {
			pids = append(pids, p.PID)
		}
	})
	return pids, err
}

// Empty lists the sessions of which nothing is left, not a zombie either. Nothing will be in
// them again.
func Empty(s Sessions) (empty []int, err error) {
	meant := s.still()
	taken := make(map[int]bool)
	if err := each(func(p procs.Process) { taken[p.Session] = true }); err != nil {
		return nil, err
	}
	for session := range s {
		if !meant[session] || !taken[session] {
			empty = append(empty, session)
		}
	}
	return empty, nil
}

// Began is when a process began, as the kernel counts; 0: it has gone.
func Began(pid int) uint64 {
	p, _ := procs.Stat(pid)
	return p.Began
}

// still are the sessions that were not begun anew by others: their leader is gone, or is the
// one that it was.
func (s Sessions) still() map[int]bool {
	meant := make(map[int]bool, len(s))
	for session, began := range s {
		leader, there := procs.Stat(session)
		meant[session] = !there || leader.Began == began
	}
	return meant
}

// each calls do with every process of this host.
func each(do func(p procs.Process)) error {
	pids, err := procs.All()
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if p, there := procs.Stat(pid); there {
			do(p)
		}
	}
	return nil
}

// marked tells whether a process has the mark. Of another user's it cannot be read, and it
// is none of ours.
func (t Target) marked(pid int) bool {
	for _, v := range procs.Environ(pid) {
		if marks, ok := bytes.CutPrefix(v, []byte(Variable+"=")); ok {
			return t.among(string(marks))
		}
	}
	return false
}
