package many

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// Run trains a job for a time, with its faults at times that its seed draws. It ends early, with its cause,
// when ctx does.
func Run(ctx context.Context, o Options, c Costs) (Result, error) {
	if err := o.Validate(); err != nil {
		return Result{}, err
	}
	w := newWorld(o, c)
	w.lead()
	for i := range o.Replicas {
		w.after(w.between(0, startWithin), func() { w.start(i, 0) })
	}
	w.faults()
	w.run(ctx, o.Duration)
	w.res.members = len(w.all)
	if w.err == nil {
		w.agree()
	}
	if w.err != nil {
		return w.res, fmt.Errorf("seed %d: %w", o.Seed, w.err)
	}
	return w.res, nil
}

// startWithin is how long after the first the last replica of a job starts.
const startWithin = 500 * time.Millisecond

// faults draws when things go wrong.
func (w *world) faults() {
	o := w.o
	if o.KillEvery > 0 {
		for at := o.KillEvery; at < o.Duration-o.KillEvery/4; at += o.KillEvery {
			w.after(at+w.between(0, o.KillEvery/4), w.strike)
		}
	}
	for i := range o.Leaders {
		w.after(o.Duration*time.Duration(2*i+1)/time.Duration(2*o.Leaders)+w.between(0, time.Second), func() {
			if w.lighthouse != nil {
				w.lighthouse.die()
			}
		})
	}
}

// strike kills a replica, if that leaves a majority of the job; another one of its name comes later.
func (w *world) strike() {
	if !slices.ContainsFunc(w.res.changes, func(c *change) bool { return c.took > 0 }) {
		w.after(w.o.KillEvery/4, w.strike) // the job has not begun
		return
	}
	if len(w.all) <= w.o.Replicas/2+1 || len(w.all) < 2 {
		return
	}
	victim := w.all[w.rng.IntN(len(w.all))]
	var name, born int
	if _, err := fmt.Sscanf(string(victim.id), "replica%d:%d-", &name, &born); err != nil {
		w.fail("id %q: %v", victim.id, err)
		return
	}
	w.kill(victim)
	if w.o.Restart > 0 {
		w.after(w.o.Restart, func() { w.start(name, born+1) })
	}
}

// agree checks that no two replicas hold different bytes at one position.
func (w *world) agree() {
	states := map[quorum.Position]uint64{}
	for _, r := range w.all {
		at := r.rank.Position()
		if old, ok := states[at]; ok && old != r.bytes {
			w.fail("C1: %s holds other bytes at %v than others", r.id, at)
		}
		states[at] = r.bytes
	}
}
