package guard

import (
	"context"
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"
)

// incoming is what one call sends: the lengths of its messages, which are known
// before they are read. It is the call's context, which ends with the call, but not
// before what has come whole was read: the last word of a caller who goes counts. Safe
// for concurrent use.
type incoming struct {
	context.Context

	call   context.Context // the transport's
	cancel context.CancelFunc
	conn   *frames
	late   atomic.Bool // cancelled because a message did not come in time

	// Of the connection's reader.
	header [messageHeaderBytes]byte
	have   int    // bytes of header
	left   uint32 // bytes of the message that are still to come

	wake chan struct{} // capacity 1: something below has changed

	mu      sync.Mutex
	lengths []uint32 // of messages that nobody has asked for
	unread  int      // messages that have come whole
	ended   bool     // there are no more
	over    bool     // the call has ended
	last    *time.Timer
}

// lastWords is how long messages that came whole may be read after their call has ended.
// One may have come in part of a read that the transport, which was closing, dropped.
const lastWords = time.Second

// incomingKey is the context key of a call's incoming.
type incomingKey struct{}

func newIncoming(ctx context.Context, conn *frames) *incoming {
	s := &incoming{call: ctx, conn: conn, wake: make(chan struct{}, 1)}
	apart := context.WithoutCancel(ctx)
	if at, ok := ctx.Deadline(); ok {
		s.Context, s.cancel = context.WithDeadline(apart, at)
	} else {
		s.Context, s.cancel = context.WithCancel(apart)
	}
	context.AfterFunc(ctx, func() { s.count(0, true) })
	return s
}

// count notes so many more messages that have come whole, and that the call is over.
func (s *incoming) count(unread int, over bool) {
	s.mu.Lock()
	s.unread, s.over = s.unread+unread, s.over || over
	end := s.over && s.unread <= 0
	switch {
	case end && s.last != nil:
		s.last.Stop()
	case s.over && !end && s.last == nil:
		s.last = time.AfterFunc(lastWords, s.cancel)
	}
	s.mu.Unlock()
	if end {
		s.cancel()
	}
}

// Value implements context.Context.
func (s *incoming) Value(key any) any {
	if key == (incomingKey{}) {
		return s
	}
	return s.Context.Value(key)
}

// Err implements context.Context: a call whose message did not come in time is
// told so.
func (s *incoming) Err() error {
	err := s.Context.Err()
	if err != nil && s.late.Load() {
		return context.DeadlineExceeded
	}
	return err
}

// expire ends the call: its message has not come in time.
func (s *incoming) expire() {
	s.late.Store(true)
	s.cancel()
}

// carried follows the messages in what a data frame carries.
func (s *incoming) carried(b []byte) {
	for len(b) > 0 {
		if s.have < messageHeaderBytes {
			n := copy(s.header[s.have:], b)
			s.have, b = s.have+n, b[n:]
			if s.have < messageHeaderBytes {
				return
			}
			s.left = binary.BigEndian.Uint32(s.header[1:])
			s.announce(s.left)
		}
		n := min(uint64(s.left), uint64(len(b)))
		s.left, b = s.left-uint32(n), b[n:]
		if s.left == 0 {
			s.have = 0
			s.count(1, false)
		}
	}
}

func (s *incoming) announce(length uint32) {
	s.mu.Lock()
	s.lengths = append(s.lengths, length)
	s.mu.Unlock()
	s.signal()
}

func (s *incoming) end() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.signal()
}

func (s *incoming) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// next waits for the length of the next message; false if there is none, or the
// call or ctx has ended. One goroutine reads a call's messages.
func (s *incoming) next(ctx context.Context) (uint32, bool) {
	for {
		s.mu.Lock()
		if len(s.lengths) > 0 {
			n := s.lengths[0]
			s.lengths = s.lengths[1:]
			s.mu.Unlock()
			return n, true
		}
		ended := s.ended
		s.mu.Unlock()
		if ended {
			return 0, false
		}
		select {
		case <-s.wake:
		case <-s.Done():
			return 0, false
		case <-ctx.Done():
			return 0, false
		}
	}
}
