package spawn

import (
	"bytes"
	"strings"
	"sync"
)

// How much of a worker's standard error is kept.
const (
	tailBytes  = 4096 // of its end
	crashBytes = 2048 // from the first line of a crash on
	lineBytes  = 256  // of a line, to see whether it begins a crash
)

// tail keeps the last tailBytes written to it, and the beginning of a Go crash,
// whose goroutines' stacks are longer than that. Safe for concurrent use.
type tail struct {
	mu    sync.Mutex
	buf   []byte
	line  []byte // the beginning of the line being written
	crash []byte // the last crash, from its first line on
}

func newTail() *tail { return &tail{buf: make([]byte, 0, 2*tailBytes)} }

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(p)
	t.lookLocked(p)
	if n > tailBytes {
		p = p[n-tailBytes:]
	}
	if len(t.buf)+len(p) > cap(t.buf) {
		keep := copy(t.buf, t.buf[len(t.buf)-min(len(t.buf), tailBytes):])
		t.buf = t.buf[:keep]
	}
	t.buf = append(t.buf, p...)
	return n, nil
}

// lookLocked watches the lines for the first one of a crash.
func (t *tail) lookLocked(p []byte) {
	for len(p) > 0 {
		line, rest, ended := bytes.Cut(p, []byte{'\n'})
		t.line = append(t.line, line[:min(len(line), lineBytes-len(t.line))]...)
		if !ended {
			return
		}
		p = rest
		begins := beginsCrash(t.line)
		if begins {
			t.crash = t.crash[:0]
		}
		if (begins || len(t.crash) > 0) && len(t.crash)+len(t.line) < crashBytes {
			t.crash = append(append(t.crash, t.line...), '\n')
		}
		t.line = t.line[:0]
	}
}

// beginsCrash tells whether the Go runtime says with this line that the process
// ends.
func beginsCrash(line []byte) bool {
	for _, start := range []string{"panic: ", "fatal error: ", "unexpected fault address "} {
		if bytes.HasPrefix(line, []byte(start)) {
			return true
		}
	}
	name, _, found := strings.Cut(string(line), ": ")
	return found && strings.HasPrefix(name, "SIG") && strings.ToUpper(name) == name && !strings.ContainsAny(name, " \t=")
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	end := string(t.buf[len(t.buf)-min(len(t.buf), tailBytes):])
	if len(t.crash) == 0 {
		return end
	}
	first, _, _ := strings.Cut(string(t.crash), "\n")
	if strings.Contains(end, first) {
		return end
	}
	return string(t.crash)
}
