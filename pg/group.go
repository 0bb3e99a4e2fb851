package pg

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/skerry-ft/skerry/tensor"
)

// Group is what users hold: the verbs of torch.distributed over a Backend.
//
// Blocking verbs end when the result is complete on this rank, the op failed,
// or ctx ended. In the last case the whole epoch is aborted with ctx's cause,
// on all ranks, since the peers wait for an op that will never be; the verb
// then waits until nothing touches its tensors any more, and returns the
// cause. Async verbs return a Work, whose op fails at Config.Timeout.
//
// Every rank must call the same verbs in the same order. After any error but
// ErrInvalidOp and ErrNotParticipating the group is broken until Configure, and
// results are undefined.
//
// Safe for concurrent use, though concurrent verbs take an order that differs
// from rank to rank unless the caller sees to it.
type Group struct {
	backend Backend
	track   tracker // of what was configured through this Group
	calls   sync.Pool
	sub     *subgroup // nil for a group that NewGroup of a parent did not make

	life      sync.Mutex
	destroyed bool
}

// NewGroup makes a group over b, which it owns from now on.
func NewGroup(b Backend) *Group {
	g := &Group{backend: b}
	poolCalls(&g.calls)
	return g
}

// Backend is the backend that NewGroup got.
func (g *Group) Backend() Backend { return g.backend }

// Configure makes this rank a part of the group that c describes; see
// Backend.Configure.
func (g *Group) Configure(ctx context.Context, c Config) error {
	return g.track.configure(ctx, g.backend, c)
}

// Abort breaks the group: every pending op fails now with cause, on all ranks.
// A Configure under way fails too. It is safe to call from any goroutine.
func (g *Group) Abort(cause error) {
	current, next := g.epochs()
	g.backend.Abort(current, cause)
	if next != current {
		g.backend.Abort(next, cause)
	}
}

// Err is the first cause since Configure, ErrUnconfigured before it, or nil.
func (g *Group) Err() error {
	if over := g.sub.over(); over != nil {
		return over
	}
	return g.backend.Err()
}

// Errored tells whether the group is broken.
func (g *Group) Errored() bool {
	err := g.Err()
	return err != nil && !errors.Is(err, ErrUnconfigured)
}

// Ranker is implemented by decorators that show another rank and size than
// Configure was told. Neither method blocks.
type Ranker interface {
	Rank() int
	Size() int
}

// Size is the number of ranks; under Managed that of the participants, which is
// 0 until the quorum is known (wait for it with the manager). It is 0 before
// the first Configure.
func (g *Group) Size() int {
	if r, ok := find[Ranker](g.backend); ok {
		return r.Size()
	}
	c, _ := g.Config()
	return c.WorldSize()
}

// Rank is this process's rank; -1 before the first Configure, and under Managed
// while this replica does not participate.
func (g *Group) Rank() int {
	if r, ok := find[Ranker](g.backend); ok {
		return r.Rank()
	}
	c, ok := g.Config()
	if !ok {
		return -1
	}
	return c.Rank
}

// Resizable tells whether the size follows the quorum: a decorator ([Managed]) shows
// another rank and size than Configure was told. A subgroup that this rank is no member
// of has a rank and size of its own likewise.
func (g *Group) Resizable() bool {
	_, ok := find[Ranker](g.backend)
	return ok
}

// Submit starts any op and returns without waiting for a peer; the op and its
// tensors belong to the group until the Work is done.
func (g *Group) Submit(op *Op) *Work { return g.submit(op) }

// Do runs any op as the blocking verbs do. It allocates a Work.
func (g *Group) Do(ctx context.Context, op *Op) error {
	if d, ok := ctx.Deadline(); ok && op.Deadline.IsZero() {
		op.Deadline = d
	}
	return g.Wait(ctx, g.submit(op))
}

// Wait waits for w, the Work of an async verb of this group, as the blocking
// verbs wait: when ctx ends first, the epoch is aborted with its cause (or, if
// the op is still queued for a quorum to come, the op alone ends), and Wait
// returns once nothing touches the op's tensors any more.
func (g *Group) Wait(ctx context.Context, w *Work) error { return g.await(ctx, w, w.Done()) }

// await is Wait for a Work that is done once done is ready.
func (g *Group) await(ctx context.Context, w *Work, done <-chan struct{}) error {
	w.help(ctx)
	select {
	case <-done:
		return w.Err()
	case <-ctx.Done():
		return g.cancel(w, context.Cause(ctx))
	}
}

// run is a blocking verb of one op, in a pooled call; in and out are as for single.
func (g *Group) run(ctx context.Context, op Op, in, out tensor.Tensor) error {
	c := g.take(op)
	c.single(in, out)
	err := g.wait(ctx, c)
	c.release(heldByCaller)
	return err
}

// wait submits the op of c and waits for it, without allocating.
func (g *Group) wait(ctx context.Context, c *call) error {
	if d, ok := ctx.Deadline(); ok {
		c.op.Deadline = d
	}
	w := g.submit(&c.op)
	if w != &c.work {
		return g.Wait(ctx, w)
	}
	return g.await(ctx, w, c.wake)
}

// Canceler is implemented by decorators that queue ops.
type Canceler interface {
	// CancelQueued ends w with cause if it is queued, else returns false.
	CancelQueued(w *Work, cause error) bool
}

// recheckEpoch is how often cancel looks whether the epoch has moved on.
const recheckEpoch = 10 * time.Millisecond

// cancel aborts the epoch of w, a pending Work, and waits for it to be done.
// The epoch is read before w is seen pending, so it is that of w or an earlier
// one, whose abort is a no-op: no innocent epoch is ever aborted. If it was
// earlier (a Configure is just returning), the next look finds the right one.
func (g *Group) cancel(w *Work, cause error) error {
	retry := time.NewTicker(recheckEpoch)
	defer retry.Stop()
	var last Epoch
	for first := true; ; first = false {
		current, _ := g.epochs()
		if w.Finished() {
			if first {
				return w.Err()
			}
			break
		}
		if q, ok := find[Canceler](g.backend); ok && q.CancelQueued(w, cause) {
			last = Epoch{}
		} else if first || current != last {
			g.backend.Abort(current, cause)
			last = current
		}
		select {
		case <-w.Done():
		case <-retry.C:
		}
	}
	switch err := w.Err(); {
	case err == nil: // Managed and Swallow report errors elsewhere
		return cause
	case errors.Is(err, cause):
		return err
	default:
		return fmt.Errorf("%w: %w", cause, err)
	}
}

// Config is what the group was last configured for, through whatever decorator or
// backend tells it; false before.
func (g *Group) Config() (Config, bool) { return configOf(g.backend, &g.track) }

func (g *Group) epochs() (current, next Epoch) { return epochsOf(g.backend, &g.track) }

// layers are b and the backends below it, from the outermost decorator inwards.
func layers(b Backend) iter.Seq[Backend] {
	return func(yield func(Backend) bool) {
		for yield(b) {
			u, ok := b.(Unwrapper)
			if !ok {
				return
			}
			b = u.Unwrap()
		}
	}
}

// find looks for an optional interface from the outermost decorator inwards.
func find[T any](b Backend) (t T, ok bool) {
	for l := range layers(b) {
		if t, ok = l.(T); ok {
			break
		}
	}
	return t, ok
}

// innermost is the backend that all decorators of b are put around.
func innermost(b Backend) Backend {
	for l := range layers(b) {
		b = l
	}
	return b
}
