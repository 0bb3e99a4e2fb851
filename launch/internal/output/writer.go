package output

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/skerry-ft/skerry/internal/spool"
)

// Writer writes whole lines of many ranks. It is safe for concurrent use, and has one
// goroutine, until Close.
type Writer struct{ queue *spool.Writer }

// NewWriter makes a Writer of w, which nothing else writes to. Close must follow.
func NewWriter(w io.Writer) *Writer { return &Writer{spool.New(w)} }

// Line writes a line behind a prefix. A writer that fails, such as a pipe that is closed, or
// that takes nothing any more, such as a terminal that is stopped, must not end training or
// hold it up: what it cannot take is lost.
func (w *Writer) Line(prefix string, line []byte) {
	all := make([]byte, 0, len(prefix)+len(line)+1)
	_, _ = w.queue.Write(append(append(append(all, prefix...), line...), '\n')) // see above
}

// Close waits until all is written, no longer than limit, and returns how many lines are lost
// because the writer took none.
func (w *Writer) Close(limit time.Duration) (lost int) {
	lost, _, _ = w.queue.Close(limit) // what it cannot take is lost: see Line
	return lost
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

// File is the log of one rank in one start. It is safe for concurrent use, and has one
// goroutine, until Close.
type File struct {
	f     *os.File
	queue *spool.Writer
}

// OpenFile makes the log of a rank, and the folders above it. Close must follow.
func OpenFile(path string) (*File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return &File{f, spool.New(f)}, nil
}

// Line writes a line. One that cannot be written, on a full disk or by a file server that does
// not answer, is lost: training is worth more than its log. Close returns why.
func (f *File) Line(line []byte) {
	_, _ = f.queue.Write(append(line[:len(line):len(line)], '\n')) // see above
}

// Close closes the log when all is written, or after limit, and returns the first error that
// there was.
func (f *File) Close(limit time.Duration) error {
	lost, ok, err := f.queue.Close(limit)
	if ok { // else the file is in use, and stays open
		err = errors.Join(err, f.f.Close())
	}
	if lost > 0 {
		err = errors.Join(err, fmt.Errorf("%d lines are lost: the file system took none for a while", lost))
	}
	return err
}
