package cluster

import "sync"

// shared makes one check serve all who wait for one: a caller gets the result of
// a check that was begun after it called. So jobs whose clients ask at every
// step cost the followers one message at a time, however many they are. Its zero
// value is ready. It is safe for concurrent use.
type shared struct {
	mu   sync.Mutex
	next *round // has not begun: whoever comes may still join it
	last *round // the newest that has
}

// round is one check.
type round struct {
	done chan struct{}
	err  error // read after done
}

// do returns the result of a call of check that began after do was called.
func (s *shared) do(check func() error) error {
	s.mu.Lock()
	if r := s.next; r != nil {
		s.mu.Unlock()
		<-r.done
		return r.err
	}
	r, before := &round{done: make(chan struct{})}, s.last
	s.next = r
	s.mu.Unlock()
	if before != nil {
		<-before.done
	}
	s.mu.Lock()
	s.next, s.last = nil, r
	s.mu.Unlock()
	r.err = check()
	close(r.done)
	return r.err
}
