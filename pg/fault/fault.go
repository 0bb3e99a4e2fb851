// Package fault injects faults into the ops of a group: a decorator that fails, delays or
// corrupts the n-th op of a kind, for tests of what is built on groups.
//
//	injector := fault.NewInjector(backend)
//	g := pg.NewGroup(injector)
//	// configure g, then
//	injector.Inject(fault.Fault{Kind: pg.KindAllReduce, Nth: 2, Err: errors.New("link broken")})
package fault

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/internal/inorder"
	"github.com/skerry-ft/skerry/tensor"
)

// Fault is one thing that an Injector does to one op of this rank.
type Fault struct {
	// Kind says which ops count; pg.KindInvalid counts all but ballots.
	Kind pg.Kind
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

// Injector is a decorator that injects faults into the ops of a backend. Without faults it changes
// nothing. Configure clears the faults that have not hit. Safe for concurrent use.
type Injector struct {
	*pg.Layer

	relays *pg.Relays[injectedOp]
	queue  *inorder.Queue[*relay, *pg.Work]

	mu struct {
		sync.Mutex

		armed []*Fault
		fired int
		hurry chan struct{} // closed when delays are to end: abort or close
	}
}

// injectedOp is what an Injector notes of an op.
type injectedOp struct {
	due   time.Time // not to be submitted earlier
	fault *Fault    // what to do to the op
}

type relay = pg.Relay[injectedOp]

// NewInjector puts an Injector around b, which it owns from now on.
func NewInjector(b pg.Backend) *Injector {
	f := &Injector{Layer: pg.NewLayer(b)}
	f.relays = pg.NewRelays(f.settle)
	f.queue = inorder.New(inorder.Config[*relay, *pg.Work]{Issue: f.issue, Canceled: f.cancelled, Closed: pg.ErrClosed})
	f.mu.hurry = make(chan struct{})
	return f
}

// Inject arms faults. Several may hit one op.
func (f *Injector) Inject(faults ...Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, fault := range faults {
		f.mu.armed = append(f.mu.armed, &fault)
	}
}

// Fired is how many faults have hit so far.
func (f *Injector) Fired() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.fired
}

// Redecorate puts around a subgroup's backend an Injector without faults.
func (*Injector) Redecorate(inner pg.Backend, _ []int) pg.Backend { return NewInjector(inner) }

// Configure disarms all faults and configures the backend.
func (f *Injector) Configure(ctx context.Context, c pg.Config) error {
	f.mu.Lock()
	f.mu.armed = nil
	f.endDelaysLocked()
	f.mu.hurry = make(chan struct{})
	f.mu.Unlock()
	return f.Layer.Configure(ctx, c)
}

// Submit starts op, with the faults that hit it.
func (f *Injector) Submit(op *pg.Op) *pg.Work {
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
func (f *Injector) Abort(e pg.Epoch, cause error) {
	f.Unwrap().Abort(e, cause)
	if e == f.epoch() {
		f.mu.Lock()
		f.endDelaysLocked()
		f.mu.Unlock()
	}
}

// Close ends delays and closes the backend.
func (f *Injector) Close() error {
	f.queue.Close()
	return f.Unwrap().Close()
}

func (f *Injector) endDelaysLocked() {
	select {
	case <-f.mu.hurry:
	default:
		close(f.mu.hurry)
	}
}

// match counts an op of kind k and merges the faults that hit it into one.
func (f *Injector) match(k pg.Kind) *Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.mu.armed) == 0 {
		return nil
	}
	var hit *Fault
	f.mu.armed = slices.DeleteFunc(f.mu.armed, func(a *Fault) bool {
		if a.Kind != k && (a.Kind != pg.KindInvalid || k == pg.KindBallot) {
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
func (f *Injector) issue(ctx context.Context, r *relay, mayWait bool) bool {
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
		if fault.Corrupt && op.Kind == pg.KindBallot && len(op.Ballot) > 0 {
			op.Ballot = slices.Clone(op.Ballot)
			op.Ballot[0] ^= 1
		}
	}
	r.Submit(f.Unwrap(), op)
	return true
}

// settle does to a finished op what its fault says.
func (f *Injector) settle(r *relay, err error) error {
	if r.State.fault == nil || err != nil {
		return err
	}
	if r.State.fault.Corrupt {
		hit := false
		r.Op().Each(func(sub *pg.Op) { hit = hit || corrupt(sub.Out) })
	}
	if r.State.fault.Err != nil && r.State.fault.Late {
		f.abort(r.State.fault.Err)
		return r.State.fault.Err
	}
	return nil
}

// cancelled ends a delayed op that its caller gave up: as the peers will wait
// for it, the group breaks.
func (f *Injector) cancelled(r *relay, cause error) {
	f.abort(cause)
	r.Finish(cause)
}

// CancelQueued ends a queued op for a caller whose ctx ended.
func (f *Injector) CancelQueued(w *pg.Work, cause error) bool { return f.queue.Cancel(w, cause) }

// epoch is the one that the backend is configured for.
func (f *Injector) epoch() pg.Epoch {
	c, _ := f.Config()
	return c.Epoch()
}

func (f *Injector) abort(cause error) {
	f.Unwrap().Abort(f.epoch(), cause)
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
