// Package slots shares a host's places for a start, such as its GPUs, out among the starts that
// there are. A start keeps its slot, whatever replica it comes to be of: a spare that becomes a replica
// goes on with the devices that it has.
package slots

import "sync"

// Slots are numbered from 0. The zero value has all of them free; it is safe for concurrent use.
type Slots struct {
	mu struct {
		sync.Mutex

		taken map[int]bool
	}
}

// Take takes the slot that is preferred, or, if it is not free, the lowest that is.
func (s *Slots) Take(preferred int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.taken == nil {
		s.mu.taken = make(map[int]bool)
	}
	slot := preferred
	for i := 0; s.mu.taken[slot]; i++ {
		slot = i
	}
	s.mu.taken[slot] = true
	return slot
}

// Give gives a slot back.
func (s *Slots) Give(slot int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.taken, slot)
}
