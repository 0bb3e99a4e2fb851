package ddp

import (
	"context"
	"errors"
	"fmt"
	"slices"

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
	refused, gradients := o.check(params), 0
	if refused == nil {
		gradients = gradientBytes(params)
	}
	err := o.fill(gradients)
	if err = errors.Join(err, refused, fits(m, o.Hook)); err != nil {
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
	if err := r.allocatePlan(); err != nil {
		return nil, fmt.Errorf("ddp: %w", err)
	}
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
		return errors.New("hook is a PostLocal, want another one under a manager: replicas whose models differ are healed; average models there in steps of their own")
	}
	return nil
}

func (o *Options) limits() limits { return limits{bucket: o.BucketBytes, first: o.FirstBucketBytes} }

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
		s := &r.step
		s.abort = true // its bucket will not start here, and may elsewhere
		if s.err == nil {
			s.err = fmt.Errorf("weigh %q on %v, want host memory", r.params[i].Name, part.Device())
		}
	default:
		r.step.weight.copy(part, r.params[i].Grad, &r.one)
	}
}
