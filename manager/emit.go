package manager

import "sync"

// emitter tells events one at a time and in order, on the goroutine of whoever
// emits; one that is told meanwhile is queued. Safe for concurrent use.
type emitter struct {
	tell func(Event) // nil: nobody listens

	mu struct {
		sync.Mutex

		queue   []Event
		telling bool
	}
}

func (e *emitter) emit(ev Event) {
	if e.tell == nil {
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
		e.tell(next)
		e.mu.Lock()
	}
	e.mu.telling = false
}
