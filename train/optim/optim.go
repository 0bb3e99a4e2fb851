package optim

import (
	"context"

	"github.com/skerry-ft/skerry/internal/failpoint"
)

// Optimizer is the user's own: it knows parameters and gradients, and nothing
// of replicas.
type Optimizer interface {
	// ZeroGrad forgets the gradients.
	ZeroGrad()
	// Step applies them.
	Step()
}

// Stepper is what the Wrapper needs of a *manager.Manager.
type Stepper interface {
	StartQuorum(ctx context.Context) error
	ShouldCommit(ctx context.Context) (bool, error)
}

// Wrapper is an Optimizer whose steps count only when the replicas agree.
type Wrapper struct {
	manager Stepper
	inner   Optimizer
}

// Wrap ties inner to m.
func Wrap(m Stepper, inner Optimizer) *Wrapper { return &Wrapper{manager: m, inner: inner} }

// ZeroGrad begins a step: it sees to it that there is a quorum, which goes on
// beside the forward pass, and forgets the gradients. Errors are those of
// StartQuorum: training cannot go on.
// Source: torchft OptimizerWrapper.zero_grad.
func (w *Wrapper) ZeroGrad(ctx context.Context) error {
	if err := w.manager.StartQuorum(ctx); err != nil {
		return err
	}
	w.inner.ZeroGrad()
	return nil
}

// Step ends the step and applies the gradients if it is committed. A discarded
// step is no error: it returns false, nothing has changed, and the loop tries
// again. Errors are those of ShouldCommit: training cannot go on.
// Source: torchft OptimizerWrapper.step.
func (w *Wrapper) Step(ctx context.Context) (committed bool, err error) {
	committed, err = w.manager.ShouldCommit(ctx)
	if err != nil || !committed {
		return false, err
	}
	failpoint.At(ctx, failpoint.ApplyBefore)
	w.inner.Step()
	failpoint.At(ctx, failpoint.ApplyAfter)
	return true, nil
}
