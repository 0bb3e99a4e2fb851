// Package spool stands before a writer that may stall, such as a terminal that is stopped or a
// file server that does not answer, so that those who write to it do not stall with it.
//
// A writer that is slow slows down those who write: nothing is lost by that. One that has taken
// nothing for a second is stalled: what does not fit into the queue then is dropped, and
// counted, and the writer is told how much when it takes some again.
//
// A Writer has one goroutine, until Close. One that is stuck in its writer stays there: nothing
// can end it but the writer.
package spool

import (
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	// maxBytes bounds what waits.
	maxBytes = 1 << 20
	// patience is how long a write waits for room before its writer counts as stalled.
	patience = time.Second
)

// Writer is a queue before a writer. It is safe for concurrent use.
type Writer struct {
	w    io.Writer
	wake chan struct{} // capacity 1: there is something to do
	done chan struct{} // closed when the goroutine has ended

	mu struct {
		sync.Mutex

		queue   [][]byte
		bytes   int           // in the queue, and being written
		room    chan struct{} // closed, and made anew, when something was written
		stalled bool          // until something is written
		dropped int           // since the writer was told last
		lost    int           // in all
		closed  bool
		failed  error // the first
	}
}

// New makes a Writer of w, which nothing else writes to. Close must follow.
func New(w io.Writer) *Writer {
	s := &Writer{w: w, wake: make(chan struct{}, 1), done: make(chan struct{})}
	s.mu.room = make(chan struct{})
	go s.run()
	return s
}

// Write takes a copy of p, which is written whole, by itself, or not at all. It waits for room
// no longer than a second, and never fails.
func (s *Writer) Write(p []byte) (int, error) {
	var limit *time.Timer
	for {
		room := s.put(p)
		if room == nil {
			return len(p), nil
		}
		if limit == nil {
			limit = time.NewTimer(patience)
			defer limit.Stop()
		}
		select {
		case <-room:
		case <-limit.C:
			s.mu.Lock()
			select {
			case <-room: // it moves, and others were faster
				limit.Reset(patience)
			default:
				s.mu.stalled = true
			}
			s.mu.Unlock()
		}
	}
}

// put queues p, or drops it, or returns what is closed when there may be room.
func (s *Writer) put(p []byte) (room <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch fits := s.mu.bytes == 0 || s.mu.bytes+len(p) <= maxBytes; {
	case s.mu.closed, !fits && s.mu.stalled:
		s.mu.dropped++
		s.mu.lost++
		return nil
	case !fits:
		return s.mu.room
	}
	s.tellLocked()
	s.mu.queue = append(s.mu.queue, append([]byte(nil), p...))
	s.mu.bytes += len(p)
	s.wakeUp()
	return nil
}

// tellLocked queues how much was dropped before what comes now.
func (s *Writer) tellLocked() {
	if s.mu.dropped == 0 {
		return
	}
	text := fmt.Appendf(nil, "… %d lines are missing here: what reads this took none for a while\n", s.mu.dropped)
	s.mu.queue = append(s.mu.queue, text)
	s.mu.bytes += len(text)
	s.mu.dropped = 0
}

func (s *Writer) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default: // it is awake
	}
}

// run writes what is queued, until Close and the end of the queue.
func (s *Writer) run() {
	defer close(s.done)
	for {
		p, closed := s.next()
		switch {
		case p != nil:
			_, err := s.w.Write(p)
			s.wrote(len(p), err)
		case closed:
			return
		default:
			<-s.wake
		}
	}
}

// next takes the first of the queue.
func (s *Writer) next() (p []byte, closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mu.queue) > 0 {
		p, s.mu.queue = s.mu.queue[0], s.mu.queue[1:]
	}
	return p, s.mu.closed
}

// wrote makes room.
func (s *Writer) wrote(n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.bytes -= n
	s.mu.stalled = false
	if s.mu.failed == nil {
		s.mu.failed = err
	}
	close(s.mu.room)
	s.mu.room = make(chan struct{})
}

// Close waits until all is written, no longer than limit, and takes no more. It returns how
// many writes were dropped or are not written yet, and the writer's first error. ok says that
// the writer is free: else it is still in use.
func (s *Writer) Close(limit time.Duration) (lost int, ok bool, err error) {
	s.mu.Lock()
	if !s.mu.closed {
		s.tellLocked()
		s.mu.closed = true
	}
	s.mu.Unlock()
	s.wakeUp()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-s.done:
		ok = true
	case <-timer.C:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	lost = s.mu.lost
	if !ok { // the one that is stuck counts
		lost += len(s.mu.queue) + 1
		s.mu.queue = nil // it is told that it is lost
	}
	return lost, ok, s.mu.failed
}
