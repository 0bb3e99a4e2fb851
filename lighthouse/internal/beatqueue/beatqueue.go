// Package beatqueue keeps the beats that wait for a job's next look, one for each sender: of two
// the newer counts.
package beatqueue

import (
	"sync"

	"github.com/skerry-ft/skerry/quorum"
)

// Queue is a job's. S is what sends, and has a Place of its own. It is safe for concurrent use.
type Queue[S any] struct {
	ready chan struct{} // capacity 1: something waits

	mu      sync.Mutex
	waiting []Heard[S] // in the order in which they began to
}

// Heard is a sender's newest beat.
type Heard[S any] struct {
	From S
	Beat quorum.Beat

	place *Place
}

// Place is where a sender's beat waits. The zero value: none does. It belongs to one Queue, whose
// lock guards it.
type Place struct {
	at int // among those that wait, from 1
}

// New makes an empty queue.
func New[S any]() *Queue[S] { return &Queue[S]{ready: make(chan struct{}, 1)} }

// Ready has an element when beats wait that none has been told of.
func (q *Queue[S]) Ready() <-chan struct{} { return q.ready }

// Add notes a sender's newest beat. It never blocks.
func (q *Queue[S]) Add(from S, at *Place, beat quorum.Beat) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if at.at > 0 {
		q.waiting[at.at-1].Beat = beat
		return
	}
	q.waiting = append(q.waiting, Heard[S]{from, beat, at})
	at.at = len(q.waiting)
	if at.at == 1 {
		select {
		case q.ready <- struct{}{}:
		default:
		}
	}
}

// Take returns the beats that wait.
func (q *Queue[S]) Take() []Heard[S] {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		return nil
	}
	all := q.waiting
	for _, h := range all {
		h.place.at = 0
	}
	q.waiting = make([]Heard[S], 0, len(all))
	return all
}
