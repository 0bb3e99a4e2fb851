package pg

import "sync"

// A Relay is an op on its way through a decorator that completes the caller's
// Work itself: the caller's op and Work, the op that the decorator submits
// below in its stead, and what the decorator notes of it (State). Relays come from
// a pool, so that decorated verbs do not allocate either.
//
// Life: Begin, then either Finish (never submitted) or Submit, upon which the
// decorator's settle decides what error the caller sees once the op below is done.
// After either the Relay may be another op's.
type Relay[S any] struct {
	State S

	relays *Relays[S]
	call   *call // the op below
	done   func(error)

	outer *Op
	work  *Work
}

// Relays are the pool of a decorator's relays. Safe for concurrent use.
type Relays[S any] struct {
	settle func(r *Relay[S], err error) error
	pool   sync.Pool
}

// NewRelays makes a decorator's pool. Settle is called when an op below is done with
// err, before the caller's Work is, and returns the error that the caller sees; it must
// not block.
func NewRelays[S any](settle func(r *Relay[S], err error) error) *Relays[S] {
	p := &Relays[S]{settle: settle}
	p.pool.New = func() any {
		r := &Relay[S]{relays: p}
		r.call = newCall(r.recycle)
		r.done = r.complete
		return r
	}
	return p
}

// Begin takes a Relay for op and makes the Work that the caller gets.
func (p *Relays[S]) Begin(op *Op) *Relay[S] {
	r := p.pool.Get().(*Relay[S])
	r.outer, r.work = op, NewWork(op)
	return r
}

// Op is the caller's. Its results are those of the op below when settle is called.
func (r *Relay[S]) Op() *Op { return r.outer }

// Work is the caller's.
func (r *Relay[S]) Work() *Work { return r.work }

// Submit starts a copy of op below; op is the caller's, or a translation of it.
func (r *Relay[S]) Submit(b Backend, op Op) {
	below := b.Submit(r.call.prepare(op))
	r.work.SetHelper(below.Helper()) // before Then, after which all this may serve another op
	below.Then(r.done)
}

// complete runs when the op below is done: its results go to the caller's op.
func (r *Relay[S]) complete(err error) {
	below := &r.call.op
	r.outer.Seq, r.outer.Epoch, r.outer.Round = below.Seq, below.Epoch, below.Round
	r.outer.Source, r.outer.Ballots = below.Source, below.Ballots
	for i, sub := range below.Batch {
		if mine := r.outer.Batch[i]; mine != sub { // Managed's translation
			mine.Seq, mine.Epoch, mine.Round, mine.Source = sub.Seq, sub.Epoch, sub.Round, sub.Source
		}
	}
	err = r.relays.settle(r, err)
	r.call.forgetBatch()
	work := r.work
	work.Complete(err)
	work.Release()
	r.call.release(heldByCaller)
}

// Finish ends an op that is not submitted below.
func (r *Relay[S]) Finish(err error) {
	work := r.work
	r.recycle()
	work.Complete(err)
	work.Release()
}

func (r *Relay[S]) recycle() {
	*r = Relay[S]{relays: r.relays, call: r.call, done: r.done}
	r.relays.pool.Put(r)
}
