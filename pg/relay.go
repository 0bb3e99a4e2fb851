package pg

import (
	"sync"
	"time"
)

// A relay is an op on its way through a decorator that completes the caller's
// Work itself: the caller's op and Work, and the op that the decorator submits
// below in its stead. Relays come from a pool, so that decorated verbs do not
// allocate either.
//
// Life: begin, then either finish (never submitted) or submit, upon which
// settle decides what error the caller sees once the op below is done.
type relay struct {
	pool   *sync.Pool
	call   *call // the op below
	done   func(error)
	settle func(r *relay, err error) error // the decorator's

	outer *Op
	work  *Work

	attempt int64     // Managed: the attempt that the op belongs to
	roster  Roster    // Managed: how ranks were mapped
	result  error     // Managed: what to return after success
	seat    *seat     // Managed: to be filled instead of the op being submitted
	due     time.Time // Fake: not to be submitted earlier
	fault   *Fault    // Fake: what to do to the op

	seq     uint64   // Check: how the op is numbered; 0: not checked
	epoch   Epoch    // Check: at Submit
	round   int64    // Check: at Submit
	digests []Digest // Check: of what a ballot covers, by rank
	record  uint64   // Trace: the number of its record

	info  OpInfo    // Observe: what Begin was told
	began time.Time // Observe
}

// newRelayPool makes a decorator's pool.
func newRelayPool(settle func(r *relay, err error) error) *sync.Pool {
	pool := new(sync.Pool)
	pool.New = func() any {
		r := &relay{pool: pool, settle: settle}
		r.call = newCall(r.recycle)
		r.done = r.complete
		return r
	}
	return pool
}

// begin takes a relay for op and makes the Work that the caller gets.
func begin(pool *sync.Pool, op *Op) *relay {
	r := pool.Get().(*relay)
	r.outer, r.work = op, NewWork(op)
	return r
}

// submit starts a copy of op below; op is the caller's, or a translation of it.
func (r *relay) submit(b Backend, op Op) {
	below := b.Submit(r.call.prepare(op))
	r.work.SetHelper(below.Helper()) // before Then, after which all this may serve another op
	below.Then(r.done)
}

// complete runs when the op below is done: its results go to the caller's op.
func (r *relay) complete(err error) {
	below := &r.call.op
	r.outer.Seq, r.outer.Epoch, r.outer.Round = below.Seq, below.Epoch, below.Round
	r.outer.Source, r.outer.Ballots = below.Source, below.Ballots
	for i, sub := range below.Batch {
		if mine := r.outer.Batch[i]; mine != sub { // Managed's translation
			mine.Seq, mine.Epoch, mine.Round, mine.Source = sub.Seq, sub.Epoch, sub.Round, sub.Source
		}
	}
	err = r.settle(r, err)
	r.forgetBatch()
	work := r.work
	work.Complete(err)
	work.Release()
	r.call.release(heldByCaller)
}

// forgetBatch lets go of the ops that Managed made of a batch.
func (r *relay) forgetBatch() {
	c := r.call
	for i, sub := range c.subs {
		sub.forget()
		c.subs[i], c.batch[i] = nil, nil
	}
	c.subs, c.batch = c.subs[:0], c.batch[:0]
}

// finish ends an op that is not submitted below.
func (r *relay) finish(err error) {
	work := r.work
	r.recycle()
	work.Complete(err)
	work.Release()
}

func (r *relay) recycle() {
	*r = relay{pool: r.pool, call: r.call, done: r.done, settle: r.settle}
	r.pool.Put(r)
}
