package ddp

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/tensor"
)

// propose starts the plan of a step: of this rank's, if it is the first participant.
func (r *Reducer) propose() {
	order, rebuilt := r.order, r.rebuilt
	if !rebuilt && r.proposal != nil {
		order, rebuilt = r.proposal, true
	}
	var phase int64
	if p, ok := r.options.Hook.(Phased); ok {
		phase = p.Phase()
	}
	r.plan.write(order, rebuilt, phase)
	r.plan.start(r.manager.Group())
}

// agree waits for the step's plan, and takes it up. On an error nothing is started in
// the step. Where the attempt has failed under a manager, the plan may be this rank's own: its
// ops then lead nowhere, for Managed issues none of them.
func (r *Reducer) agree(ctx context.Context) {
	s := &r.step
	s.agreed = true
	err := r.plan.wait(ctx)
	if err == nil {
		if err = r.follows(); err != nil {
			s.abort = true // the others begin the step
		}
	}
	if err != nil && s.err == nil {
		s.err = err
	}
}

// follows takes up the plan that has come.
func (r *Reducer) follows() error {
	if err := r.plan.fetch(); err != nil {
		return err
	}
	if err := r.plan.check(); err != nil {
		return err
	}
	if err := r.reorder(r.plan.order()); err != nil {
		return err
	}
	if r.rebuilt = r.plan.rebuilt(); r.rebuilt {
		r.proposal = nil
	}
	g := r.manager.Group()
	r.step.rank, r.step.size = g.Rank(), g.Size()
	if p, ok := r.options.Hook.(Phased); ok {
		p.Begin(r.plan.phase())
	}
	return nil
}

// errViews is a plan, or a state, of another order than the views are in.
var errViews = errors.New("buckets are in another order, which gradients that are Views cannot follow: want Views on all replicas or on none")

// reorder fills the buckets in an order, unless they are in it. Gradients that are ready
// move along.
func (r *Reducer) reorder(order []int32) error {
	if sameOrder(order, r.order) {
		return nil
	}
	if r.options.Views {
		return errViews
	}
	to := make([]int, len(order))
	for at, i := range order {
		to[at] = int(i)
	}
	r.arrange(to)
	if r.step.begun {
		for _, i := range r.step.arrived {
			r.put(i)
		}
	}
	return nil
}

// Commit says that the step which Reduce ended counts: call it under a manager when
// ShouldCommit has said so, where the optimizer steps, before the next StartQuorum. What
// the Reducer and its hook keep from step to step is written then, and nowhere else: the order
// of arrival, the parameters that are not used, error memory, counters. Over a plain
// group Reduce calls it. A step without it leaves no trace. It does nothing without a Reduce
// since the last.
func (r *Reducer) Commit() {
	s := &r.step
	if !s.reduced {
		return
	}
	s.reduced = false
	seen := !s.empty && s.early > 0
	if r.options.StaticGraph && r.unused == nil && seen {
		r.unused = make([]bool, len(r.params))
		for _, i := range s.arrived[s.early:] {
			r.unused[i] = true
		}
	}
	if !r.planned {
		return
	}
	// A heal may have brought another order since: this step's is the newer one.
	if err := r.reorder(r.plan.order()); err != nil {
		panic(fmt.Sprintf("ddp: Commit: %v", err)) // the step had that order
	}
	r.rebuilt = r.plan.rebuilt()
	r.save(r.rebuilt, r.order)
	if r.options.rebuilds() && !r.rebuilt && seen && (r.options.StaticGraph || s.early == len(r.params)) {
		r.proposal = slices.Clone(s.arrived)
	}
	commits(r.options.Hook)
}

// save writes what is registered.
func (r *Reducer) save(rebuilt bool, order []int) {
	r.saved[0] = 0
	if rebuilt {
		r.saved[0] = 1
	}
	for at, i := range order {
		r.saved[1+at] = int32(i)
	}
}

// tensorOrder is the one tensor of a Reducer's state: int32, whether the buckets were
// rebuilt, and the gradients in their order.
const tensorOrder = "order"

// State is the order of the buckets, for manager.Register and for checkpoints, as a view. It
// keeps a newcomer from undoing the rebuilding: the ops of a step are the same on
// all replicas without it, too.
func (r *Reducer) State() checkpoint.State {
	return checkpoint.State{Tensors: map[string]tensor.Tensor{tensorOrder: tensor.Of(r.saved)}}
}

// Load is told that State's tensor has been written, by a heal or from a checkpoint,
// between two steps. It refuses an order that is none.
func (r *Reducer) Load(checkpoint.State) error {
	if r.saved[0] != 0 && r.saved[0] != 1 {
		return fmt.Errorf("ddp: the state's first word is %d, want 0 or 1", r.saved[0])
	}
	if !permutes(r.saved[1:], r.plan.seen) {
		return fmt.Errorf("ddp: the state's order does not name each of %d gradients once", len(r.params))
	}
	r.rebuilt = r.saved[0] == 1
	if err := r.reorder(r.saved[1:]); err != nil {
		return fmt.Errorf("ddp: %w", err)
	}
	return nil
}
