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
	for i, ready := range r.ready {
		if ready {
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
