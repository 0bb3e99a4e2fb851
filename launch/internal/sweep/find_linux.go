package sweep

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// maxEnvironBytes bounds what is read of a process's environment.
const maxEnvironBytes = 4 << 20

// Find lists the processes that are meant and live; zombies do not.
func Find(t Target) (pids []int, err error) {
	meant := t.Sessions.still()
	err = each(func(p process) {
		if p.alive && p.pid != os.Getpid() && (meant[p.session] || t.marked(p.pid)) {
			pids = append(pids, p.pid)
		}
	})
	return pids, err
}

// Empty lists the sessions of which nothing is left, not a zombie either. Nothing will be in
// them again.
func Empty(s Sessions) (empty []int, err error) {
	meant := s.still()
	taken := make(map[int]bool)
	if err := each(func(p process) { taken[p.session] = true }); err != nil {
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
	p, _ := stat(pid)
	return p.began
}

// still are the sessions that were not begun anew by others: their leader is gone, or is the
// one that it was.
func (s Sessions) still() map[int]bool {
	meant := make(map[int]bool, len(s))
	for session, began := range s {
		leader, there := stat(session)
		meant[session] = !there || leader.began == began
	}
	return meant
}

// process is what the kernel tells of a process.
type process struct {
	pid     int
	session int
	alive   bool // it is no zombie
	began   uint64
}

// each calls do with every process of this host.
func each(do func(p process)) error {
	dir, err := os.Open("/proc")
	if err != nil {
		return fmt.Errorf("list processes: %w", err)
	}
	defer dir.Close() //nolint:errcheck // it was read
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return fmt.Errorf("list processes: %w", err)
	}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue // what is no process
		}
		if p, there := stat(pid); there {
			do(p)
		}
	}
	return nil
}

// Where proc(5) has what is read of a process, behind its name.
const (
	fieldState   = 0
	fieldSession = 3
	fieldBegan   = 19
)

// stat reads what the kernel tells of a process, if there is one.
func stat(pid int) (p process, there bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return p, false
	}
	// The name, in parentheses, may hold anything.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) <= fieldBegan {
		return p, false
	}
	p.pid, p.alive = pid, fields[fieldState] != "Z" && fields[fieldState] != "X"
	if p.session, err = strconv.Atoi(fields[fieldSession]); err != nil {
		return p, false
	}
	p.began, err = strconv.ParseUint(fields[fieldBegan], 10, 64)
	return p, err == nil
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
