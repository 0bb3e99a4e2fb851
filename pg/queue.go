package pg

import (
	"context"
	"slices"
	"sync"
)

// A queue hands relays to a decorator's issue function one at a time, in the
// order of submission. As long as nothing has to wait that happens on the
// submitter's own goroutine. When an op would have to wait, a goroutine takes
// over, and ends when the queue is empty. close waits for it.
type queue struct {
	// issue submits r below or finishes it. If that takes waiting it returns
	// false at once, or waits until ctx ends when mayWait is set.
	issue func(ctx context.Context, r *relay, mayWait bool) bool
	// canceled finishes a relay that was taken out of the queue.
	canceled func(r *relay, cause error)

	workers sync.WaitGroup

	mu struct {
		sync.Mutex

		waiting []*relay
		busy    bool // somebody is issuing
		// The op that the goroutine issues is named by its Work: its relay
		// may be in the pool again before issue has returned.
		head  *Work
		stop  context.CancelFunc // ends the head's wait
		cause error              // why stop was called

		closed bool
	}
}

// submit puts r at the end of the queue, and issues it if it is its turn.
func (q *queue) submit(r *relay) {
	q.mu.Lock()
	switch {
	case q.mu.closed:
		q.mu.Unlock()
		r.finish(ErrClosed)
		return
	case q.mu.busy:
		q.mu.waiting = append(q.mu.waiting, r)
		q.mu.Unlock()
		return
	}
	q.mu.busy = true
	q.mu.Unlock()
	issued := q.issue(context.Background(), r, false)
	q.mu.Lock()
	if !issued {
		q.mu.waiting = slices.Insert(q.mu.waiting, 0, r)
	}
	switch {
	case len(q.mu.waiting) == 0:
		q.mu.busy = false
	case q.mu.closed:
		q.mu.Unlock()
		q.drain()
		return
	default:
		q.workers.Go(q.run)
	}
	q.mu.Unlock()
}

// run issues what waits until nothing does.
func (q *queue) run() {
	for {
		q.mu.Lock()
		if q.mu.closed {
			q.mu.Unlock()
			q.drain()
			return
		}
		if len(q.mu.waiting) == 0 {
			q.mu.waiting, q.mu.busy = nil, false
			q.mu.Unlock()
			return
		}
		r := q.mu.waiting[0]
		q.mu.waiting = q.mu.waiting[1:]
		ctx, stop := context.WithCancel(context.Background())
		q.mu.head, q.mu.stop, q.mu.cause = r.work, stop, nil
		q.mu.Unlock()
		q.issue(ctx, r, true)
		stop()
		q.mu.Lock()
		q.mu.head, q.mu.stop = nil, nil
		q.mu.Unlock()
	}
}

// drain finishes what is left in a closed queue.
func (q *queue) drain() {
	q.mu.Lock()
	left := q.mu.waiting
	q.mu.waiting, q.mu.busy = nil, false
	q.mu.Unlock()
	for _, r := range left {
		r.finish(ErrClosed)
	}
}

// cancel ends the op of w with cause if it is still in the queue, or tells its
// wait to end if it is at the head. It returns false if it is neither.
func (q *queue) cancel(w *Work, cause error) bool {
	q.mu.Lock()
	if q.mu.head == w {
		q.mu.cause = cause
		q.mu.stop()
		q.mu.Unlock()
		return true
	}
	i := slices.IndexFunc(q.mu.waiting, func(r *relay) bool { return r.work == w })
	if i < 0 {
		q.mu.Unlock()
		return false
	}
	r := q.mu.waiting[i]
	q.mu.waiting = slices.Delete(q.mu.waiting, i, i+1)
	q.mu.Unlock()
	q.canceled(r, cause)
	return true
}

// causeOf is why the head's wait was ended, or err. Only issue calls it, for
// the op that it is issuing.
func (q *queue) causeOf(err error) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.mu.cause != nil {
		return q.mu.cause
	}
	return err
}

// close finishes everything that waits with ErrClosed, and waits until nothing
// runs any more. Submissions after it fail with ErrClosed.
func (q *queue) close() {
	q.mu.Lock()
	q.mu.closed = true
	if q.mu.stop != nil {
		q.mu.cause = ErrClosed
		q.mu.stop()
	}
	q.mu.Unlock()
	q.workers.Wait()
}
