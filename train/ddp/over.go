package ddp

import (
	"fmt"

	"github.com/skerry-ft/skerry/pg"
)

// Manager is what a Reducer needs of a *manager.Manager. For a group without a
// manager, such as a *dist.World's, Over makes one.
type Manager interface {
	// Group is the managed group: it queues ops until the step's quorum is there.
	Group() *pg.Group
	ReportError(err error)
}

// Over makes a Reducer average over all ranks of g, without a manager: Reduce
// returns the errors of a step. Every rank must have equal parameters before.
func Over(g *pg.Group) Manager { return plain{g} }

type plain struct{ group *pg.Group }

func (p plain) Group() *pg.Group  { return p.group }
func (p plain) ReportError(error) {} // failed returns it instead

// failed reports a step's error to the manager, or returns it where there is none.
func (r *Reducer) failed(err error) error {
	if _, ok := r.manager.(plain); ok {
		return err
	}
	r.manager.ReportError(fmt.Errorf("reduce gradients: %w", err))
	return nil
}
