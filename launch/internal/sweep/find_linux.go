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
