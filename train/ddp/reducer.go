package ddp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/skerry-ft/skerry/tensor"
)

// Reducer averages the gradients of one model.
type Reducer struct {
	manager Manager
	options Options
	params  []Param
	extents []extent
	shapes  []tensor.Tensor                // of each gradient: its shape is what counts
	arenas  map[tensor.DType]tensor.Tensor // the buckets' memory

	order   []int // gradients in the order of the buckets
	buckets []*Bucket
	where   []place // by parameter

	planned  bool // each step begins with a plan
	plan     plan
	rebuilt  bool
	proposal []int   // the order of arrival that this rank saw; nil: none yet
	saved    []int32 // rebuilt and order at the last step that counted: registered

	noSync bool   // inside NoSync
	unused []bool // by parameter, under StaticGraph; nil: not known yet
	step   step
	stats  stats
	one    [1][]byte // scratch of weight.copy
}

// step is what is known of the step under way, and until the next begins of the one before.
type step struct {
	begun   bool
	reduced bool // it is over, and may be one that counts

	agreed   bool // the plan is there, or there is none
	err      error
	abort    bool // the others wait for what this rank will not start
	wrong    error
	ready    []bool // by parameter
	arrived  []int  // in the order of Ready
	early    int    // of arrived, before Reduce
	launched int    // buckets under way, always the first ones
	turn     int    // the next of these whose Future goes on before another is launched
	weight   weight
	empty    bool // the weight was
	rank     int  // among the participants
	size     int
}

// New makes a Reducer over params, given in the order of the forward pass. The
// gradients' memory must stay where it is. It returns all that is wrong, joined.
func New(m Manager, params []Param, o Options) (*Reducer, error) {
	err := o.fill()
	if err = errors.Join(err, o.check(params), fits(m, o.Hook)); err != nil {
		return nil, fmt.Errorf("ddp: %w", err)
	}
	n := len(params)
	r := &Reducer{manager: m, options: o, params: slices.Clone(params), shapes: make([]tensor.Tensor, n)}
	r.planned = o.rebuilds() || needsPlan(o.Hook)
	r.step.ready, r.step.arrived = make([]bool, n), make([]int, 0, n)
	for i, p := range params {
		r.extents = append(r.extents, extent{dtype: p.dtype(), elements: p.elements()})
		r.shapes[i] = p.Grad
	}
	if err := r.allocate(); err != nil {
		return nil, fmt.Errorf("ddp: %w", err)
	}
	r.plan = newPlan(n, fingerprint(r.extents, o.limits()))
	r.saved = make([]int32, 1+n)
	r.arrange(reversed(n))
	r.save(false, r.order)
	if err := r.makeViews(); err != nil {
		return nil, fmt.Errorf("ddp: %w", err)
	}
	r.tellSettings()
	return r, nil
}

// fits refuses a hook that lets models differ where they are compared.
func fits(m Manager, h Hook) error {
	if c, ok := h.(*Compress); ok {
		h = c.inner
	}
	if _, ok := m.(plain); ok {
		return nil
	}
	if _, ok := h.(*PostLocal); ok {
		return errors.New("Hook is a PostLocal, want another one under a manager: replicas whose models differ are healed; average models there in steps of their own")
	}
	return nil
}

func (o *Options) limits() limits { return limits{bucket: o.BucketBytes, first: o.FirstBucketBytes} }

// allocate makes the memory of all buckets, of each dtype at once.
func (r *Reducer) allocate() error {
	sizes := make(map[tensor.DType]int)
	for _, e := range r.extents {
		sizes[e.dtype] += e.elements
	}
	r.arenas = make(map[tensor.DType]tensor.Tensor, len(sizes))
	for dtype, n := range sizes {
		t, err := r.options.Alloc(dtype, n)
		switch {
		case err != nil:
			return fmt.Errorf("allocate buckets of %d elements of %v: %w", n, dtype, err)
		case t.DType() != dtype || t.Len() != n || !t.Contiguous():
			return fmt.Errorf("Alloc made %v, want %d elements of %v", t, n, dtype)
		case t.Device() != tensor.CPU() && !r.options.Views:
			return fmt.Errorf("Alloc made %v, want host memory without Views", t)
		}
		r.arenas[dtype] = t
	}
	return nil
}

// arrange fills the buckets in an order.
func (r *Reducer) arrange(order []int) {
	r.order = order
	spans, where := lay(order, r.extents, r.options.limits())
	r.where = where
	r.buckets = make([]*Bucket, len(spans))
	for i, s := range spans {
		arena := r.arenas[s.dtype]
		r.buckets[i] = &Bucket{
			index: i, last: i == len(spans)-1, params: s.params,
			flat: arena.Flat(s.from, s.to), run: &run{reducer: r},
		}
	}
}

// makeViews gives the gradients their places in the buckets.
func (r *Reducer) makeViews() error {
	if !r.options.Views {
		return nil
	}
	for i, p := range r.params {
		at := r.where[i]
		t, err := r.buckets[at.bucket].flat.Flat(at.from, at.to).Reshape(p.Shape...)
		if err != nil {
			return err
		}
		r.params[i].Grad, r.shapes[i] = t, t
	}
	return nil
}

// Grad is the gradient of params[i]: what New was given, or under Options.Views a view
// of its bucket, zero at first, which stays where it is. A step writes the average to it.
func (r *Reducer) Grad(i int) tensor.Tensor { return r.params[i].Grad }

// Ready says that the gradient of params[i] is final in this step. It copies it
// and starts the reduction of each bucket that is full, without waiting for a
// peer. It panics if i is out of range or was ready in this step already, unless CheckReduction or StaticGraph
// make an error of that. Inside NoSync it does nothing.
func (r *Reducer) Ready(i int) {
	if r.noSync {
		return
	}
	r.begin()
	if r.step.ready[i] {
		r.again(i)
		return
	}
	r.take(i)
	r.launch(context.Background()) // nothing is waited for
}

// begin begins a step, unless it is under way.
func (r *Reducer) begin() {
	s := &r.step
	if s.begun {
		return
	}
	s.begun, s.reduced, s.agreed = true, false, !r.planned
	s.err, s.abort, s.wrong = nil, false, nil
	s.arrived, s.early, s.launched, s.turn = s.arrived[:0], 0, 0, 0
	s.rank, s.size = -1, 0
	clear(s.ready)
	for _, b := range r.buckets {
		b.run.ready, b.run.next, b.run.done = 0, Future{}, false
	}
	if r.planned {
		r.propose()
	}
	for i, unused := range r.unused {
		if unused {
			r.take(i)
		}
	}
}

// take puts a gradient into its bucket.
func (r *Reducer) take(i int) {
	s := &r.step
	s.ready[i] = true
	s.arrived = append(s.arrived, i)
	r.put(i)
}

// put writes a gradient to its bucket, weighed.
func (r *Reducer) put(i int) {
	at := r.where[i]
	b := r.buckets[at.bucket]
	b.run.ready++
	part := b.flat.Flat(at.from, at.to)
	switch {
	case r.options.Views && r.step.weight.share() == 1:
	case part.Device() != tensor.CPU():
		r.step.err = fmt.Errorf("Weigh of %q on %v, want host memory", r.params[i].Name, part.Device())
	default:
		r.step.weight.copy(part, r.params[i].Grad, &r.one)
	}
}

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
		b.run.next = r.options.Hook.Reduce(b)
		s.launched++
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
	if s.abort && ctx.Err() == nil {
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
	if s.err == nil && err == nil && u.next.err == nil && u.next.finally != nil {
		u.next.err = u.next.finally()
	}
	if u.next.err != nil {
		s.abort = true
		err = fmt.Errorf("hook of bucket %d: %w", b.index, u.next.err)
	}
	if s.err == nil {
		s.err = err
	}
	switch {
	case s.err != nil:
		s.abort = s.abort || u.next.then != nil // cut short, while others go on
		u.done = true
	case u.next.then != nil:
		u.next = u.next.then()
	default:
		r.takeBack(b)
		u.done = true
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
