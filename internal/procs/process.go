package procs

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// Process is what the kernel tells of a process.
type Process struct {
	PID     int
	Parent  int
	Session int
	Alive   bool   // it is no zombie
	Began   uint64 // as the kernel counts: it tells a process from a later one of its number
}

// Where proc(5) has what is read of a process, behind its name.
const (
	fieldState   = 0
	fieldParent  = 1
	fieldSession = 3
	fieldBegan   = 19
)

// Stat reads what the kernel tells of a process, if there is one.
func Stat(pid int) (p Process, there bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return p, false
	}
	// The name, in parentheses, may hold anything.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) <= fieldBegan {
		return p, false
	}
	p.PID, p.Alive = pid, fields[fieldState] != "Z" && fields[fieldState] != "X"
	if p.Parent, err = strconv.Atoi(fields[fieldParent]); err != nil {
		return p, false
	}
	if p.Session, err = strconv.Atoi(fields[fieldSession]); err != nil {
		return p, false
	}
	p.Began, err = strconv.ParseUint(fields[fieldBegan], 10, 64)
	return p, err == nil
}

// All are the processes of this host, or of this pid namespace.
func All() (pids []int, err error) {
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
		if pid, err := strconv.Atoi(name); err == nil { // else it is no process
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// maxEnvironBytes bounds what is read of a process's environment.
const maxEnvironBytes = 4 << 20

// Environ is the environment that a process was started with, variable by variable; nil if it
// may not be read.
func Environ(pid int) [][]byte {
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return nil
	}
	defer f.Close() //nolint:errcheck // it was read
	text, err := io.ReadAll(io.LimitReader(f, maxEnvironBytes))
	if err != nil {
		return nil
	}
	return bytes.Split(text, []byte{0})
}
