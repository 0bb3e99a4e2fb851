package goodput

import (
	"bytes"
	"encoding/json"
	"io"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// The kinds of event.
const (
	eventReady     = "ready"     // a server listens: Address
	eventCommitted = "committed" // Step, Participants, Hash
	eventDiscarded = "discarded" // an attempt at a step: Step
	eventFailed    = "failed"    // Text
)

// event is one line of JSON that a process writes. Torchft's trainer writes the same.
type event struct {
	Kind         string `json:"event"`
	AtNs         int64  `json:"at_ns"` // by monotonicNow
	Address      string `json:"address,omitempty"`
	Step         int64  `json:"step,omitempty"`
	Participants int    `json:"participants,omitempty"`
	Hash         string `json:"hash,omitempty"`
	Text         string `json:"text,omitempty"`
}

// monotonicNow is a time that the processes of one host can compare.
func monotonicNow() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return time.Now().UnixNano() // no Linux lacks the clock
	}
	return t.Nano()
}

// emitter writes events. Safe for concurrent use.
type emitter struct {
	mu sync.Mutex

	w io.Writer
}

// emit stamps e and writes it. An error means that the bench is gone, and then this process is
// about to be killed.
func (em *emitter) emit(e event) {
	e.AtNs = monotonicNow()
	line, err := json.Marshal(e)
	if err != nil {
		return // events are of texts and numbers
	}
	em.mu.Lock()
	defer em.mu.Unlock()
	_, _ = em.w.Write(append(line, '\n')) // see above
}

// maxLine bounds one line of a process.
const maxLine = 1 << 20

// lines splits what a process writes, and hands each event on. It is owned by the goroutine
// that copies the process's output. Lines that are no event are passed over.
type lines struct {
	rest []byte
	each func(event)
}

// Write implements io.Writer.
func (l *lines) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	for {
		line, rest, found := bytes.Cut(l.rest, []byte{'\n'})
		if !found {
			break
		}
		l.rest = rest
		var e event
		if json.Unmarshal(line, &e) == nil && e.Kind != "" {
			l.each(e)
		}
	}
	if len(l.rest) > maxLine {
		l.rest = nil
	}
	return len(p), nil
}
