// Package events tells a listener what happens, one event at a time. It starts no
// goroutines.
package events

import "sync"

// Events tells events of type E in order, on the goroutine of the caller that emits; one
// that is emitted meanwhile is queued. The zero value drops them. Safe for concurrent use.
type Events[E any] struct {
	Tell func(E) // nil: events are dropped; set before the first Emit

	mu struct {
		sync.Mutex

		queue   []E
		telling bool
	}
}

// Emit tells ev, or leaves it to the call of Emit that is telling. It is called without
// locks that Tell may take.
func (e *Events[E]) Emit(ev E) {
	if e.Tell == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mu.queue = append(e.mu.queue, ev)
	if e.mu.telling {
		return
	}
	e.mu.telling = true
	for len(e.mu.queue) > 0 {
		next := e.mu.queue[0]
		e.mu.queue = e.mu.queue[1:]
		e.mu.Unlock()
		e.Tell(next)
		e.mu.Lock()
	}
	e.mu.telling = false
}
