package ddp

import (
	"context"
	"fmt"
	"time"
)

// lag is after how many other buckets a Future goes on: enough for its ops to be done
// by then, as a rule.
const lag = 2

// launch starts the buckets that are full, in order, and lets Futures go on. It
// waits for nothing in ctx; where the order wants a part of a Future first whose ops are
// under way, it leaves the rest to the next call.
func (r *Reducer) launch(ctx context.Context) {
	s := &r.step
	if !s.agreed {
		if !r.plan.op.Done() {
			return
		}
		r.agree(ctx)
	}
	for s.err == nil && s.launched < len(r.buckets) {
		b := r.buckets[s.launched]
		if b.run.ready < len(b.params) || !r.turns(ctx) {
			break
		}
		s.launched++
		r.goOn(b, r.options.Hook.Reduce(b))
		s.turn = s.launched % lag
	}
	for _, b := range r.buckets[:s.launched] {
		if !b.run.done && b.run.next.then == nil && b.run.idle() {
			r.follow(ctx, b)
		}
	}
}

// turns lets the Futures go on that do so before the next bucket is launched. It returns
// false where ops of one are under way.
func (r *Reducer) turns(ctx context.Context) bool {
	for s := &r.step; s.turn < s.launched; s.turn += lag {
		b := r.buckets[s.turn]
		if b.run.done || b.run.next.then == nil {
			continue
		}
		if !b.run.idle() {
			return false
		}
		r.follow(ctx, b)
	}
	return r.step.err == nil
}

// Reduce ends the reduction of a step: gradients that were not ready go as they
// are, and when it returns nil every gradient is the average over the
// participants, as Weigh weighs them and the hook makes it, or the step's error has been reported to the manager. Over a
// plain group it returns the step's error. Else it returns one only when ctx
// ends: its cause, after the group was aborted. The Reducer is then ready for the
// next step. Inside NoSync it does nothing and returns nil.
func (r *Reducer) Reduce(ctx context.Context) error {
	if r.noSync {
		return nil
	}
	began := time.Now()
	r.begin()
	unused := r.finish()
	err := r.settle(ctx)
	s := &r.step
	if err == nil {
		err = s.wrong
	}
	if err == nil && len(unused) > 0 {
		err = &UnusedError{Params: unused}
	}
	s.begun, s.reduced, s.empty, s.weight = false, err == nil, s.weight.empty(), weight{}
	r.note(time.Since(began))
	if err == nil {
		if _, ok := r.manager.(plain); ok {
			r.Commit()
		}
		return nil
	}
	if ctx.Err() == nil {
		err = r.failed(err)
	}
	if err != nil {
		return fmt.Errorf("reduce gradients: %w", err)
	}
	return nil
}

// finish makes the gradients ready that are not, and returns the names of those that
// should have been. They are reduced even where that is an error, or the other ranks
// would wait for them.
func (r *Reducer) finish() []string {
	s := &r.step
	s.early = len(s.arrived)
	allowed := s.weight.empty() || r.options.FindUnused || r.options.StaticGraph && r.unused == nil
	var unused []string
	if !allowed {
		for i, ready := range s.ready {
			if !ready {
				unused = append(unused, r.params[i].Name)
			}
		}
	}
	for i := len(s.ready) - 1; i >= 0; i-- { // as the backward pass has them
		if !s.ready[i] {
			r.take(i)
		}
	}
	return unused
}

// settle waits for the plan and then for all buckets. It returns the first error, after
// nothing of the step is under way any more.
func (r *Reducer) settle(ctx context.Context) error {
	s := &r.step
	if !s.agreed {
		r.agree(ctx)
	}
	for r.launch(ctx); s.err == nil && s.launched < len(r.buckets); r.launch(ctx) {
		r.awaitTurn(ctx)
	}
	for busy := true; busy; {
		busy = false
		for _, b := range r.buckets[:s.launched] {
			if !b.run.done {
				r.follow(ctx, b)
				busy = busy || !b.run.done
			}
		}
	}
	if s.abort { // whatever became of ctx: the others wait
		r.manager.Group().Abort(s.err)
	}
	return s.err
}

// awaitTurn waits for the ops of the bucket on which the launch of the next one waits.
func (r *Reducer) awaitTurn(ctx context.Context) {
	s := &r.step
	if s.turn < s.launched {
		if err := r.buckets[s.turn].run.wait(ctx); err != nil {
			s.err = err
		}
	}
}

// follow waits for the ops of a bucket, and lets its Future go on, or ends it.
func (r *Reducer) follow(ctx context.Context, b *Bucket) {
	s := &r.step
	u := b.run
	err := u.wait(ctx)
	if s.err == nil {
		s.err = err
	}
	if s.err == nil && u.next.finally != nil {
		r.goOn(b, Failed(u.next.finally()))
	}
	switch {
	case s.err != nil:
		s.abort = s.abort || u.next.then != nil // cut short, while others go on
		u.done = true
	case u.next.then != nil:
		r.goOn(b, u.next.then())
	default:
		r.takeBack(b)
		u.done = true
	}
}

// goOn makes next what is to follow of a bucket. A hook that failed ends the step there
// and then: ops that this rank started after it would meet other ones of its peers, and
// the error that they end with would hide the hook's.
func (r *Reducer) goOn(b *Bucket, next Future) {
	b.run.next = next
	if s := &r.step; next.err != nil && s.err == nil {
		s.abort = true
		s.err = fmt.Errorf("hook of bucket %d: %w", b.index, next.err)
	}
}

// takeBack copies what a bucket holds to the gradients.
func (r *Reducer) takeBack(b *Bucket) {
	if r.options.Views {
		return
	}
	size := b.flat.DType().Size()
	for _, i := range b.params {
		at := r.where[i]
		copy(r.params[i].Grad.Bytes(), b.flat.Bytes()[at.from*size:at.to*size])
	}
}
