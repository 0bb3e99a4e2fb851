package ddp

import (
	"context"
	"errors"
	"fmt"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/internal/problems"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// PostLocalConfig tunes post-local SGD. It is the same on all ranks.
type PostLocalConfig struct {
	// Start is how many steps average gradients over all ranks, 0 or more. From
	// then on gradients are averaged over Subgroup alone, and models every Period steps.
	Start int64

	// Period is how many steps lie between two averages of the models, 1 or more. Too
	// low costs what gradients would; too high lets the models drift apart.
	Period int64

	// Subgroup averages the gradients of, say, the ranks of one host from Start on;
	// nil: each rank takes its own.
	Subgroup *pg.Group
}

// PostLocal is post-local SGD: the Hook, and the averager of models. It is for plain groups
// (Over): under a manager replicas hold equal models at every step, and New
// refuses it. Weigh has no place in a step after Start.
//
//	p, err := ddp.NewPostLocal(ddp.PostLocalConfig{Start: 1000, Period: 4})
//	red, err := ddp.New(ddp.Over(g), params, ddp.Options{Hook: p})
//	…
//	err = red.Reduce(ctx)
//	optimizer.Step()
//	averaged, err := p.Average(ctx, g, tensors...) // of the model
//
// Source: Lin et al., "Don't Use Large Mini-Batches, Use Local SGD"; torch's
// post_localSGD_hook and PeriodicModelAverager.
type PostLocal struct {
	cfg   PostLocalConfig
	steps [1]int64 // that count: in State
	now   int64    // the step under way
}

// NewPostLocal checks cfg, and returns all problems, joined.
func NewPostLocal(cfg PostLocalConfig) (*PostLocal, error) {
	var bad problems.List
	problems.NotNegative(&bad, "Start", cfg.Start)
	bad.Want(cfg.Period >= 1, "Period", cfg.Period, "1 or more")
	if err := bad.Err(); err != nil {
		return nil, fmt.Errorf("ddp: %w", err)
	}
	return &PostLocal{cfg: cfg}, nil
}

// Phase is how many steps count.
func (p *PostLocal) Phase() int64 { return p.steps[0] }

// Begin begins step number phase, from 0.
func (p *PostLocal) Begin(phase int64) { p.now = phase }

// Commit counts the step.
func (p *PostLocal) Commit() { p.steps[0] = p.now + 1 }

// Reduce averages over all ranks before Start, and then over the Subgroup.
func (p *PostLocal) Reduce(b *Bucket) Future {
	switch {
	case p.now < p.cfg.Start:
		b.AllReduce(b.Tensor())
	case b.Op() != tensor.Avg:
		return Failed(errors.New("weighed gradients in a step of post-local SGD after Start, want equal shares"))
	case p.cfg.Subgroup != nil:
		b.StartOn(p.cfg.Subgroup, pg.Op{Kind: pg.KindAllReduce, Reduce: tensor.Avg}, b.Tensor(), b.Tensor())
	}
	return Future{}
}

// Average makes the tensors their average over the ranks of g, one op each, if it is time: after
// step Start (from 0), and every Period steps from there. Call it after the
// optimizer's step, on all ranks, with all of the model in one order; it says
// whether it was time. It blocks as Broadcast does.
func (p *PostLocal) Average(ctx context.Context, g *pg.Group, tensors ...tensor.Tensor) (bool, error) {
	last := p.steps[0] - 1 - p.cfg.Start
	if last < 0 || last%p.cfg.Period != 0 {
		return false, nil
	}
	if i, err := inFlight(ctx, g, pg.Op{Kind: pg.KindAllReduce, Reduce: tensor.Avg}, tensors); err != nil {
		return true, fmt.Errorf("average tensor %d of %d: %w", i, len(tensors), err)
	}
	return true, nil
}

// tensorSteps is a counter of steps in a hook's state: int64.
const tensorSteps = "steps"

// State is the count of steps, for checkpoints, as a view.
func (p *PostLocal) State() checkpoint.State {
	return checkpoint.State{Tensors: map[string]tensor.Tensor{tensorSteps: tensor.Of(p.steps[:])}}
}

// Load is told that State's tensor has been written. It refuses a count below 0.
func (p *PostLocal) Load(checkpoint.State) error { return loadSteps(p.steps[0]) }

func loadSteps(n int64) error {
	if n < 0 {
		return fmt.Errorf("ddp: the state's steps = %d, want 0 or more", n)
	}
	return nil
}
