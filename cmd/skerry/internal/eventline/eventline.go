// Package eventline carries what the processes of one host tell the program that started them: one
// event, a line of JSON, at a time.
package eventline

import (
	"bytes"
	"encoding/json"
	"io"
	"sync"

	"golang.org/x/sys/unix"
)

// Now is a time in nanoseconds that the processes of one host can compare.
func Now() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // no Linux lacks the clock
	}
	return t.Nano()
}

// Writer writes events. Safe for concurrent use.
type Writer struct {
	mu sync.Mutex
	w  io.Writer
}

// To makes a Writer to w.
func To(w io.Writer) *Writer { return &Writer{w: w} }

// Write writes an event; an error is that it cannot be JSON. Where w cannot be written to, whoever
// reads it is gone, and then this process is about to be killed.
func (w *Writer) Write(event any) error {
	line, err := json.Marshal(event)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	_, _ = w.w.Write(append(line, '\n')) // see above
	return nil
}

// MaxBytes bounds one line from a process.
const MaxBytes = 1 << 20

// Lines splits what a process writes, and hands each event on. It is used by the one goroutine
// that copies the process's output. Lines that are no JSON are passed over.
type Lines[E any] struct {
	Each func(E)

	rest []byte
}

// Write implements io.Writer.
func (l *Lines[E]) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	for {
		line, rest, found := bytes.Cut(l.rest, []byte{'\n'})
		if !found {
			break
		}
		l.rest = rest
		var e E
		if json.Unmarshal(line, &e) == nil {
			l.Each(e)
		}
	}
	if len(l.rest) > MaxBytes {
		l.rest = nil
	}
	return len(p), nil
}
