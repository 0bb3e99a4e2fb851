// Package output takes what ranks write: it splits it into lines, keeps the last ones, and
// writes them whole.
package output

import (
	"bytes"
	"errors"
	"os"
	"time"
)

// Bounds of a line.
const (
	// MaxLineBytes is where a longer line is cut into several.
	MaxLineBytes = 64 << 10
	// idle is when the beginning of a line is written though its end has not come: a
	// question, or a program that hangs.
	idle = time.Second
)

// Split reads f, the reading end of a pipe, and calls emit for each line, without what ended
// it: a line feed, a carriage return, MaxLineBytes, or idle. It returns when all ends for
// writing are closed, or f is. emit may not keep the line.
func Split(f *os.File, emit func(line []byte)) {
	var s splitter
	chunk := make([]byte, 32<<10)
	for {
		deadline := time.Time{}
		if len(s.line) > 0 {
			deadline = time.Now().Add(idle)
		}
		_ = f.SetReadDeadline(deadline) // of what has none, a line is written when it ends
		n, err := f.Read(chunk)
		s.take(chunk[:n], emit)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			s.flush(emit)
		case err != nil:
			s.flush(emit)
			return
		}
	}
}

// splitter holds the beginning of a line.
type splitter struct {
	line    []byte
	skipsLF bool // a carriage return came: a line feed behind it ends no line of its own
}

func (s *splitter) take(chunk []byte, emit func([]byte)) {
	for len(chunk) > 0 {
		if s.skipsLF && chunk[0] == '\n' {
			s.skipsLF, chunk = false, chunk[1:]
			continue
		}
		s.skipsLF = false
		end := bytes.IndexAny(chunk, "\r\n")
		part := chunk
		if end >= 0 {
			part = chunk[:end]
		}
		room := MaxLineBytes - len(s.line)
		if len(part) > room {
			s.line = append(s.line, part[:room]...)
			s.flush(emit)
			chunk = chunk[room:]
			continue
		}
		s.line = append(s.line, part...)
		if end < 0 {
			return
		}
		s.end(chunk[end], emit)
		chunk = chunk[end+1:]
	}
}

// end ends a line by a line feed, or by a carriage return: one at the beginning of a line,
// as progress bars have it, ends none.
func (s *splitter) end(by byte, emit func([]byte)) {
	s.skipsLF = by == '\r' && len(s.line) > 0
	if by == '\n' || len(s.line) > 0 {
		emit(s.line)
	}
	s.line = s.line[:0]
}

// flush writes what there is of a line.
func (s *splitter) flush(emit func([]byte)) {
	if len(s.line) > 0 {
		emit(s.line)
		s.line = s.line[:0]
	}
}
