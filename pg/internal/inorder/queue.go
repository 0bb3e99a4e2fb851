// Package inorder issues ops one at a time, in the order of their submission, for
// decorators of process groups whose ops may have to wait before they are issued.
package inorder

import (
	"context"
	"slices"
	"sync"
)

// Relay is an op that is to be issued; W names it to its caller.
type Relay[W comparable] interface {
	// Work is the name under which the op can be canceled.
	Work() W
	// Finish ends an op that was not issued.
	Finish(err error)
}

// Config is what a Queue does with ops. All fields are needed.
type Config[R Relay[W], W comparable] struct {
	// Issue submits r below or finishes it. If that takes waiting it returns
	// false at once, or waits until ctx ends when mayWait is set.
	Issue func(ctx context.Context, r R, mayWait bool) bool
	// Canceled finishes a relay that was taken out of the queue.
	Canceled func(r R, cause error)
	// Closed is the error of what a closed queue still holds or is given.
	Closed error
}

// A Queue hands relays to a decorator's Issue one at a time, in the order of
// submission. As long as nothing has to wait that happens on the submitter's own
// goroutine. When an op would have to wait, a goroutine takes over, and ends when
// the queue is empty. Close waits for it. Safe for concurrent use.
type Queue[R Relay[W], W comparable] struct {
	config Config[R, W]

	workers sync.WaitGroup

	mu struct {
		sync.Mutex

		waiting []R
		busy    bool // an op is being issued
		// The op that the goroutine issues is named by its Work: its relay
		// may be in the pool again before issue has returned.
		head  W                  // the zero W: none
		stop  context.CancelFunc // ends the head's wait
		cause error              // why stop was called

		closed bool
	}
}

// New makes an empty queue. It starts nothing.
func New[R Relay[W], W comparable](c Config[R, W]) *Queue[R, W] {
	return &Queue[R, W]{config: c}
}

// Submit puts r at the end of the queue, and issues it if it is its turn.
func (q *Queue[R, W]) Submit(r R) {
	q.mu.Lock()
	switch {
	case q.mu.closed:
		q.mu.Unlock()
		r.Finish(q.config.Closed)
		return
	case q.mu.busy:
		q.mu.waiting = append(q.mu.waiting, r)
		q.mu.Unlock()
		return
	}
	q.mu.busy = true
	q.mu.Unlock()
	issued := q.config.Issue(context.Background(), r, false)
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
func (q *Queue[R, W]) run() {
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
		q.mu.head, q.mu.stop, q.mu.cause = r.Work(), stop, nil
		q.mu.Unlock()
		q.config.Issue(ctx, r, true)
		stop()
		q.mu.Lock()
		var none W
		q.mu.head, q.mu.stop = none, nil
		q.mu.Unlock()
	}
}

// drain finishes what is left in a closed queue.
func (q *Queue[R, W]) drain() {
	q.mu.Lock()
	left := q.mu.waiting
	q.mu.waiting, q.mu.busy = nil, false
	q.mu.Unlock()
	for _, r := range left {
		r.Finish(q.config.Closed)
	}
}

// Cancel ends the op of w with cause if it is still in the queue, or tells its
// wait to end if it is at the head. It returns false if it is neither.
func (q *Queue[R, W]) Cancel(w W, cause error) bool {
	q.mu.Lock()
	if q.mu.head == w {
		q.mu.cause = cause
		q.mu.stop()
		q.mu.Unlock()
		return true
	}
	i := slices.IndexFunc(q.mu.waiting, func(r R) bool { return r.Work() == w })
	if i < 0 {
		q.mu.Unlock()
		return false
	}
	r := q.mu.waiting[i]
	q.mu.waiting = slices.Delete(q.mu.waiting, i, i+1)
	q.mu.Unlock()
	q.config.Canceled(r, cause)
	return true
}

// CauseOf is why the head's wait was ended, or err. Only Issue calls it, for
// the op that it is issuing.
func (q *Queue[R, W]) CauseOf(err error) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.mu.cause != nil {
		return q.mu.cause
	}
	return err
}

// Close finishes everything that waits with Closed, and waits until nothing
// runs any more. Submissions after it fail with ErrClosed.
func (q *Queue[R, W]) Close() {
	q.mu.Lock()
	q.mu.closed = true
	if q.mu.stop != nil {
		q.mu.cause = q.config.Closed
		q.mu.stop()
	}
	q.mu.Unlock()
	q.workers.Wait()
}
