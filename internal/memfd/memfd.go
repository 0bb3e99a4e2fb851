package memfd

import (
	"errors"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// MaxBytes bounds a segment: more than any host's tensors, and far from where
// sizes overflow.
const MaxBytes = 1 << 40

// ErrUnsealed is returned by FromFile for a file that could change its size
// under us, or that cannot be sealed at all.
var ErrUnsealed = errors.New("memfd: file is not sealed")

// Segment is a mapped memory file. Make one with Create or FromFile.
type Segment struct {
	file *os.File
	data []byte

	closed sync.Once
	err    error // of Close
}

// Bytes is the segment's memory, page-aligned, valid until Close.
func (s *Segment) Bytes() []byte { return s.data }

// File is what to pass to another process. It is closed with the segment.
func (s *Segment) File() *os.File { return s.file }

// Close unmaps the memory and closes the file. Safe to call twice. Whoever
// touches Bytes afterwards faults.
func (s *Segment) Close() error {
	s.closed.Do(func() {
		s.err = errors.Join(unix.Munmap(s.data), s.file.Close())
		s.data = nil
	})
	return s.err
}
