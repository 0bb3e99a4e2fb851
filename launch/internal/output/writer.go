package output

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
)

// Writer writes whole lines of many ranks. It is safe for concurrent use.
type Writer struct {
	mu sync.Mutex // of w, so that lines stay whole

	w io.Writer
}

// NewWriter makes a Writer of w, which nothing else writes to.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Line writes a line behind a prefix. A writer that fails, such as a pipe that is closed,
// must not end training: what it cannot take is lost.
func (w *Writer) Line(prefix string, line []byte) {
	all := make([]byte, 0, len(prefix)+len(line)+1)
	all = append(append(append(all, prefix...), line...), '\n')
	w.mu.Lock()
	defer w.mu.Unlock()
	_, _ = w.w.Write(all) // see above
}

// colours tell replicas apart, on a dark ground and on a bright one.
var colours = []string{"36", "33", "35", "32", "34", "31"}

// Rank says whose lines they are.
type Rank struct {
	Replica string
	Index   int  // of the replica, which chooses its colour
	Rank    int  // in the replica
	Alone   bool // it is the only one of its replica
}

// Prefix is what stands before the lines of a rank.
func (r Rank) Prefix(colour bool) string {
	name := r.Replica
	if !r.Alone {
		name = fmt.Sprintf("%s:%d", r.Replica, r.Rank)
	}
	if colour {
		return fmt.Sprintf("\x1b[%sm%s |\x1b[0m ", colours[r.Index%len(colours)], name)
	}
	return name + " | "
}

// File is the log of one rank in one start. It is safe for concurrent use.
type File struct {
	mu sync.Mutex // of f

	f      *os.File
	failed error // the first write that failed; there are no more
}

// OpenFile makes the log of a rank, and the folders above it.
func OpenFile(path string) (*File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return &File{f: f}, nil
}

// Line writes a line. After one that cannot be written, on a full disk, all others are lost:
// training is worth more than its log. Close returns why.
func (f *File) Line(line []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failed == nil {
		_, f.failed = f.f.Write(append(line[:len(line):len(line)], '\n'))
	}
}

// Close closes the log, and returns the first error that there was.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.f.Close()
	if f.failed != nil {
		return f.failed
	}
	return err
}
