// Package optim ties an optimizer to the manager's steps: forgetting the
// gradients begins a step, and stepping happens only if the step is committed.
//
//	opt := optim.Wrap(m, digits.NewSGD(params))
//	for m.Step() < steps {
//		if err := opt.ZeroGrad(ctx); err != nil { … } // begins the step
//		…                                             // forward, backward, reduce
//		committed, err := opt.Step(ctx)               // ends it
//	}
//
// A Wrapper is owned by the trainer's goroutine.
package optim
