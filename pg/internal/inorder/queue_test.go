package inorder

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errClosed = errors.New("closed")

// op is a relay that notes how it ended; gate, if there is one, is what it waits for.
type op struct {
	id    int
	gate  chan struct{}
	ended chan error // capacity 1
}

func (o *op) Work() int { return o.id }

func (o *op) Finish(err error) { o.ended <- err }

// recorder issues ops and notes their order.
type recorder struct {
	queue *Queue[*op, int]
	heads chan int // ops whose wait has begun

	mu     sync.Mutex
	issued []int
}

func newRecorder(t *testing.T) *recorder {
	r := &recorder{heads: make(chan int, 16)}
	r.queue = New(Config[*op, int]{Issue: r.issue, Canceled: (*op).Finish, Closed: errClosed})
	t.Cleanup(r.queue.Close)
	return r
}

func (r *recorder) issue(ctx context.Context, o *op, mayWait bool) bool {
	if o.gate != nil {
		if !mayWait {
			return false
		}
		r.heads <- o.id
		select {
		case <-o.gate:
		case <-ctx.Done():
			o.Finish(r.queue.CauseOf(context.Cause(ctx)))
			return true
		}
	}
	r.mu.Lock()
	r.issued = append(r.issued, o.id)
	r.mu.Unlock()
	o.Finish(nil)
	return true
}

func (r *recorder) submit(id int, gate chan struct{}) *op {
	o := &op{id: id, gate: gate, ended: make(chan error, 1)}
	r.queue.Submit(o)
	return o
}

// What need not wait is issued before Submit returns; behind an op that waits all wait.
func TestOrder(t *testing.T) {
	t.Parallel()
	r := newRecorder(t)
	first := r.submit(1, nil)
	if len(first.ended) != 1 {
		t.Error("an op that need not wait was not issued at once")
	}
	gate := make(chan struct{})
	ops := []*op{first, r.submit(2, gate), r.submit(3, nil), r.submit(4, gate), r.submit(5, nil)}
	if <-r.heads; len(ops[2].ended) != 0 {
		t.Error("an op overtook one that waits")
	}
	close(gate)
	for _, o := range ops {
		if err := <-o.ended; err != nil {
			t.Errorf("op %d: %v", o.id, err)
		}
	}
	if want := []int{1, 2, 3, 4, 5}; !slices.Equal(r.issued, want) {
		t.Errorf("issued %v, want %v", r.issued, want)
	}
}

// A canceled op ends with the cause, whether it waits at the head or behind it, and
// those behind it go on. One that is not in the queue is not canceled.
func TestCancel(t *testing.T) {
	t.Parallel()
	r := newRecorder(t)
	gate := make(chan struct{})
	head, second, third := r.submit(1, gate), r.submit(2, nil), r.submit(3, nil)
	<-r.heads
	cause := errors.New("given up")
	if !r.queue.Cancel(2, cause) || !r.queue.Cancel(1, cause) {
		t.Error("what is queued was not canceled")
	}
	for _, o := range []*op{head, second} {
		if err := <-o.ended; !errors.Is(err, cause) {
			t.Errorf("op %d ended with %v, want %v", o.id, err, cause)
		}
	}
	if err := <-third.ended; err != nil || !slices.Equal(r.issued, []int{3}) {
		t.Errorf("the third: %v, issued %v; want it alone", err, r.issued)
	}
	if r.queue.Cancel(2, cause) || r.queue.Cancel(9, cause) {
		t.Error("canceled an op that is not in the queue")
	}
}

// Close ends what waits, and what comes later.
func TestClose(t *testing.T) {
	t.Parallel()
	r := newRecorder(t)
	head, second := r.submit(1, make(chan struct{})), r.submit(2, nil)
	<-r.heads
	r.queue.Close()
	for _, o := range []*op{head, second, r.submit(3, nil)} {
		if err := <-o.ended; !errors.Is(err, errClosed) {
			t.Errorf("op %d ended with %v, want %v", o.id, err, errClosed)
		}
	}
	if len(r.issued) > 0 {
		t.Errorf("issued %v after Close", r.issued)
	}
}

// Close waits for an Issue that goes on after its context has ended.
func TestCloseWaitsForIssue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		var q *Queue[*op, int]
		q = New(Config[*op, int]{
			Issue: func(ctx context.Context, o *op, mayWait bool) bool {
				if !mayWait {
					return false
				}
				<-ctx.Done()
				<-goOn
				o.Finish(q.CauseOf(context.Cause(ctx)))
				return true
			},
			Canceled: (*op).Finish, Closed: errClosed,
		})
		o := &op{id: 1, ended: make(chan error, 1)}
		q.Submit(o)
		synctest.Wait() // Issue waits
		closed := make(chan struct{})
		go func() {
			q.Close()
			close(closed)
		}()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("Close returned while Issue was at work")
		default:
		}
		close(goOn)
		<-closed
		if len(o.ended) != 1 {
			t.Fatal("Close returned before the op had ended")
		}
		if err := <-o.ended; !errors.Is(err, errClosed) {
			t.Errorf("the op ended with %v, want %v", err, errClosed)
		}
	})
}
