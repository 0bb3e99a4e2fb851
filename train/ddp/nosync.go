package ddp

import (
	"fmt"
	"strings"
)

// NoSync calls f, in which Ready and Reduce do nothing: the backward passes in it
// add their gradients up on this rank, and the next Reduce after it reduces the
// sums. All ranks must leave out the same steps. It returns f's error, and panics
// if a gradient is ready already in this step.
func (r *Reducer) NoSync(f func() error) error {
	r.unready("NoSync")
	defer func(was bool) { r.noSync = was }(r.noSync)
	r.noSync = true
	return f()
}

// unready panics in the middle of a step, where a call would be about half of it.
func (r *Reducer) unready(call string) {
	if !r.step.begun {
		return
	}
	for _, i := range r.step.arrived {
		if r.unused == nil || !r.unused[i] {
			panic(fmt.Sprintf("ddp: %s in a step in which gradient %q is ready", call, r.params[i].Name))
		}
	}
}

// UnusedError is a step in which Ready was not called for every gradient, without
// Options.FindUnused.
type UnusedError struct {
	Params []string // their names, in the order of the parameters
}

func (e *UnusedError) Error() string {
	return fmt.Sprintf("Ready was not called for %d gradients, want all unless FindUnused: %s",
		len(e.Params), strings.Join(e.Params, ", "))
}

// ForgottenError is a step that began before Reduce had ended the one before, under
// Options.CheckReduction: a gradient became ready for the second time.
type ForgottenError struct {
	Param string // the first such
}

func (e *ForgottenError) Error() string {
	return fmt.Sprintf("gradient %q is ready for the second time: Reduce was not called at the end of the step before, want it once after each backward pass", e.Param)
}

// GraphError is a step in which Ready was called for a gradient that the first step did
// not use, under Options.StaticGraph.
type GraphError struct {
	Param string // the first such
}

func (e *GraphError) Error() string {
	return fmt.Sprintf("gradient %q is ready, which was not used in the first step, want the same gradients in all steps under StaticGraph", e.Param)
}

// again deals with a gradient that is ready already.
func (r *Reducer) again(i int) {
	s, name := &r.step, r.params[i].Name
	var wrong error
	switch {
	case r.unused != nil && r.unused[i]:
		wrong = &GraphError{Param: name}
	case r.options.CheckReduction:
		wrong = &ForgottenError{Param: name}
	default:
		panic(fmt.Sprintf("ddp: gradient %q is ready for the second time in one step, or Reduce was forgotten in the one before", name))
	}
	if s.wrong == nil {
		s.wrong = wrong
	}
}
