package guard

import (
	"context"
	"encoding/binary"
	"sync/atomic"
	"time"

	"github.com/skerry-ft/skerry/internal/monitor"
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

	mu struct {
		monitor.Monitor // that lengths or ended has changed

		lengths []uint32 // of messages that nobody has asked for
		unread  int      // messages that have come whole
		ended   bool     // there are no more
		over    bool     // the call has ended
		last    *time.Timer
	}
}

// lastWords is how long messages that came whole may be read after their call has ended.
// One may have come in part of a read that the transport, which was closing, dropped.
const lastWords = time.Second

// incomingKey is the context key of a call's incoming.
type incomingKey struct{}

func newIncoming(ctx context.Context, conn *frames) *incoming {
	s := &incoming{call: ctx, conn: conn}
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
	s.mu.unread, s.mu.over = s.mu.unread+unread, s.mu.over || over
	end := s.mu.over && s.mu.unread <= 0
	switch {
	case end && s.mu.last != nil:
		s.mu.last.Stop()
	case s.mu.over && !end && s.mu.last == nil:
		s.mu.last = time.AfterFunc(lastWords, s.cancel)
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
	defer s.mu.Unlock()
	s.mu.lengths = append(s.mu.lengths, length)
	s.mu.Broadcast()
}

func (s *incoming) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.ended = true
	s.mu.Broadcast()
}

// next waits for the length of the next message; false if there is none, or ctx,
// which ends with the call at the latest, has ended. One goroutine reads a call's
// messages.
func (s *incoming) next(ctx context.Context) (length uint32, ok bool) {
	_ = s.mu.Await(ctx, 0, func() bool { // after an error nothing is ok
		if ok = len(s.mu.lengths) > 0; ok {
			length, s.mu.lengths = s.mu.lengths[0], s.mu.lengths[1:]
		}
		return ok || s.mu.ended
	})
	return length, ok
}
