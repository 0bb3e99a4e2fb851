package baby

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/skerry-ft/skerry/internal/memfd"
	"github.com/skerry-ft/skerry/pg"
)

// said is what a child's two readers share: how much came over the socket, and
// what of it the ring's ops need.
type said struct {
	mu struct {
		sync.Mutex

		handled  uint64 // messages
		more     *sync.Cond
		over     bool
		ops      []*order // that were too large for the ring, in order
		segments map[uint64]*memfd.Segment

		turn, asked uint64 // of the ring's reader; asked as of the last ping
		busy        bool
	}
}

func (s *said) init() {
	s.mu.more = sync.NewCond(&s.mu)
	s.mu.segments = make(map[uint64]*memfd.Segment)
}

// next counts a message as handled.
func (s *said) next() {
	s.mu.Lock()
	s.mu.handled++
	s.mu.more.Broadcast()
	s.mu.Unlock()
}

// end lets nobody wait any more.
func (s *said) end() {
	s.mu.Lock()
	s.mu.over = true
	s.mu.more.Broadcast()
	s.mu.Unlock()
}

// begin waits until so many messages have been handled, and notes that an op is
// being handed to the backend; false if they never will be.
func (s *said) begin(after uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.mu.handled < after && !s.mu.over {
		s.mu.more.Wait()
	}
	s.mu.turn++
	s.mu.busy = true
	return s.mu.handled >= after
}

// done notes that the backend has taken the op.
func (s *said) done() {
	s.mu.Lock()
	s.mu.busy = false
	s.mu.Unlock()
}

// moves tells whether the backend has taken an op since the last question, or
// has none to take: a child whose backend does not come back from Submit is not
// alive.
func (s *said) moves() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	stuck := s.mu.busy && s.mu.turn == s.mu.asked
	s.mu.asked = s.mu.turn
	return !stuck
}

func (s *said) addOp(o *order) {
	s.mu.Lock()
	s.mu.ops = append(s.mu.ops, o)
	s.mu.Unlock()
}

func (s *said) takeOp() (*order, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mu.ops) == 0 {
		return nil, errors.New("baby: an op that should have come over the socket did not")
	}
	o := s.mu.ops[0]
	s.mu.ops = s.mu.ops[1:]
	return o, nil
}

func (s *said) addSegment(id uint64, seg *memfd.Segment) {
	s.mu.Lock()
	s.mu.segments[id] = seg
	s.mu.Unlock()
}

func (s *said) segment(id uint64) *memfd.Segment {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.segments[id]
}

func (s *said) takeSegment(id uint64) *memfd.Segment {
	s.mu.Lock()
	defer s.mu.Unlock()
	seg := s.mu.segments[id]
	delete(s.mu.segments, id)
	return seg
}

// obeyRing takes ops out of the ring and hands them to the backend, until the
// child ends. An error is the parent's fault, and ends the child.
func (s *server) obeyRing(t *taker) error {
	var rec record
	for {
		took, err := t.take(&rec)
		if err == nil && took {
			var work *pg.Work
			work, err = s.obeyRecord(&rec)
			s.help(work, t)
		}
		switch {
		case err != nil:
			s.pipe.close() // which ends run
			return err
		case took:
		case s.over.Load():
			return nil
		default:
			t.rest(&s.over)
		}
	}
}

// help brings an op forward that this thread has begun, until another one comes:
// so no other thread has to be woken for it.
func (s *server) help(work *pg.Work, t *taker) {
	if work == nil || t.Waits() {
		return
	}
	if h := work.Helper(); h != nil {
		h.Help(until{context.Background(), t}, work)
	}
}

// until is a context that ends when there is something to take.
type until struct {
	context.Context

	t *taker
}

// Err is not nil once there is.
func (u until) Err() error {
	if u.t.Waits() {
		return context.Canceled
	}
	return nil
}

// obeyRecord hands an op to the backend. The work is nil if there is none.
func (s *server) obeyRecord(rec *record) (*pg.Work, error) {
	if !s.said.begin(rec.after) {
		return nil, nil // the child ends
	}
	defer s.said.done()
	var o *order
	var err error
	switch rec.typ {
	case recordOp:
		o, err = readOrder(&cursor{b: rec.body})
	case recordOpSent:
		o, err = s.said.takeOp()
	default:
		err = fmt.Errorf("baby: record of type %d from the parent", rec.typ)
	}
	if err != nil {
		return nil, err
	}
	return s.submit(o)
}
