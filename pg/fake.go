package pg

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/skerry-ft/skerry/pg/internal/inorder"
	"github.com/skerry-ft/skerry/tensor"
)

// Fault is one thing that a Fake does to one op of this rank.
type Fault struct {
	// Kind says which ops count; KindInvalid counts all but ballots.
	Kind Kind
	// Nth says which of them is hit, from 1, counted since Inject. 0 means 1.
	Nth int

	// Err breaks the group with this cause, as a broken link does: the op
	// fails, and the peers' fail with it. With Late the op runs to its end
	// first and fails on this rank only then.
	Err  error
	Late bool
	// Delay holds the op, and all that are submitted after it, for so long.
	Delay time.Duration
	// Corrupt flips a bit of the first output after success; of a ballot, a
	// bit of this rank's payload before it is sent.
	Corrupt bool

	seen int
}

// Fake injects faults into the ops of a backend. Without faults it changes
// nothing. Configure clears the faults that have not hit.
type Fake struct {
	*Layer

	relays *Relays[fakedOp]
	queue  *inorder.Queue[*fakeRelay, *Work]

	mu struct {
		sync.Mutex

		armed []*Fault
		fired int
		hurry chan struct{} // closed when delays are to end: abort or close
	}
}

// fakedOp is what Fake notes of an op.
type fakedOp struct {
	due   time.Time // not to be submitted earlier
	fault *Fault    // what to do to the op
}

type fakeRelay = Relay[fakedOp]

// NewFake puts a Fake around b, which it owns from now on.
func NewFake(b Backend) *Fake {
	f := &Fake{Layer: NewLayer(b)}
	f.relays = NewRelays(f.settle)
	f.queue = inorder.New(inorder.Config[*fakeRelay, *Work]{Issue: f.issue, Canceled: f.cancelled, Closed: ErrClosed})
	f.mu.hurry = make(chan struct{})
	return f
}

// Inject arms faults. Several may hit one op.
func (f *Fake) Inject(faults ...Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, fault := range faults {
		f.mu.armed = append(f.mu.armed, &fault)
	}
}

// Fired is how many faults have hit so far.
func (f *Fake) Fired() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.fired
}

// Redecorate puts around a subgroup's backend a Fake without faults.
func (*Fake) Redecorate(inner Backend, _ []int) Backend { return NewFake(inner) }

// Configure disarms all faults and configures the backend.
func (f *Fake) Configure(ctx context.Context, c Config) error {
	f.mu.Lock()
	f.mu.armed = nil
	f.endDelaysLocked()
	f.mu.hurry = make(chan struct{})
	f.mu.Unlock()
	return f.track.configure(ctx, f.backend, c)
}

// Submit starts op, with the faults that hit it.
func (f *Fake) Submit(op *Op) *Work {
	r := f.relays.Begin(op)
	work := r.Work()
	if hit := f.match(op.Kind); hit != nil {
		r.State.fault = hit
		if hit.Delay > 0 {
			r.State.due = time.Now().Add(hit.Delay)
		}
	}
	f.queue.Submit(r)
	return work
}

// Abort aborts the backend and ends delays.
func (f *Fake) Abort(e Epoch, cause error) {
	f.backend.Abort(e, cause)
	if current, _ := f.epochs(); e == current {
		f.mu.Lock()
		f.endDelaysLocked()
		f.mu.Unlock()
	}
}

// Close ends delays and closes the backend.
func (f *Fake) Close() error {
	f.queue.Close()
	return f.backend.Close()
}

func (f *Fake) endDelaysLocked() {
	select {
	case <-f.mu.hurry:
	default:
		close(f.mu.hurry)
	}
}

// match counts an op of kind k and merges the faults that hit it into one.
func (f *Fake) match(k Kind) *Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.mu.armed) == 0 {
		return nil
	}
	var hit *Fault
	f.mu.armed = slices.DeleteFunc(f.mu.armed, func(a *Fault) bool {
		if a.Kind != k && (a.Kind != KindInvalid || k == KindBallot) {
			return false
		}
		if a.seen++; a.seen < max(a.Nth, 1) {
			return false
		}
		f.mu.fired++
		if hit == nil {
			hit = a
			return true
		}
		hit.Delay = max(hit.Delay, a.Delay)
		hit.Corrupt = hit.Corrupt || a.Corrupt
		if hit.Err == nil {
			hit.Err, hit.Late = a.Err, a.Late
		}
		return true
	})
	return hit
}

// issue submits r below once its delay is over.
func (f *Fake) issue(ctx context.Context, r *fakeRelay, mayWait bool) bool {
	if wait := time.Until(r.State.due); !r.State.due.IsZero() && wait > 0 {
		if !mayWait {
			return false
		}
		f.mu.Lock()
		hurry := f.mu.hurry
		f.mu.Unlock()
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-hurry:
		case <-ctx.Done():
			f.cancelled(r, f.queue.CauseOf(context.Cause(ctx)))
			return true
		}
	}
	op := *r.Op()
	if fault := r.State.fault; fault != nil {
		if fault.Err != nil && !fault.Late {
			f.abort(fault.Err)
		}
		if fault.Corrupt && op.Kind == KindBallot && len(op.Ballot) > 0 {
			op.Ballot = slices.Clone(op.Ballot)
			op.Ballot[0] ^= 1
		}
	}
	r.Submit(f.backend, op)
	return true
}

// settle does to a finished op what its fault says.
func (f *Fake) settle(r *fakeRelay, err error) error {
	if r.State.fault == nil || err != nil {
		return err
	}
	if r.State.fault.Corrupt {
		hit := false
		r.Op().Each(func(sub *Op) { hit = hit || corrupt(sub.Out) })
	}
	if r.State.fault.Err != nil && r.State.fault.Late {
		f.abort(r.State.fault.Err)
		return r.State.fault.Err
	}
	return nil
}

// cancelled ends a delayed op that its caller gave up: as the peers will wait
// for it, the group breaks.
func (f *Fake) cancelled(r *fakeRelay, cause error) {
	f.abort(cause)
	r.Finish(cause)
}

// CancelQueued ends a queued op for a caller whose ctx ended.
func (f *Fake) CancelQueued(w *Work, cause error) bool { return f.queue.Cancel(w, cause) }

func (f *Fake) abort(cause error) {
	current, _ := f.epochs()
	f.backend.Abort(current, cause)
}

// corrupt flips a bit of the first tensor that has any.
func corrupt(ts []tensor.Tensor) (done bool) {
	for _, t := range ts {
		if b := t.Bytes(); len(b) > 0 {
			b[0] ^= 1
			return true
		}
	}
	return false
}
