package output

import (
	"slices"
	"sync"
)

// Bounds of a Tail.
const (
	tailLines = 20
	tailBytes = 1024 // of each
)

// Tail keeps the last lines that a rank wrote. Its zero value is an empty one; it is safe for
// concurrent use.
type Tail struct {
	mu struct {
		sync.Mutex

		lines []string
	}
}

// Add adds a line.
func (t *Tail) Add(line []byte) {
	text := string(line[:min(len(line), tailBytes)])
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.mu.lines) == tailLines {
		t.mu.lines = slices.Delete(t.mu.lines, 0, 1)
	}
	t.mu.lines = append(t.mu.lines, text)
}

// Lines are those that there are, the oldest first.
func (t *Tail) Lines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.mu.lines)
}
