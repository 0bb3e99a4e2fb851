package pg

import (
	"context"

	"github.com/skerry-ft/skerry/tensor"
)

// Pending is an op under way in memory of its group's, which serves op after op: a
// blocking verb in two parts, for a loop that starts the same verbs in every step and
// is not to allocate. The zero value is ready; it is owned by one goroutine, and may be
// copied between two ops only.
type Pending struct {
	group *Group
	call  *call
	work  *Work
}

// Start starts op on g with one tensor on each side, and returns without waiting for a
// peer; in and out may be the same, or the zero Tensor. The op and its tensors belong to the group
// until Wait has returned. It panics if an op is under way.
func (p *Pending) Start(g *Group, op Op, in, out tensor.Tensor) {
	if p.work != nil {
		panic("pg: Pending.Start before Wait for the op before")
	}
	p.group, p.call = g, g.take(op)
	p.call.single(in, out)
	p.work = g.submit(&p.call.op)
}

// Done tells whether no op is under way that has not ended.
func (p *Pending) Done() bool { return p.work == nil || p.work.Finished() }

// Wait waits for the op as Group.Wait does, and returns its error; nil if none is under
// way. Pending is then ready for the next.
func (p *Pending) Wait(ctx context.Context) error {
	if p.work == nil {
		return nil
	}
	g, c, w := p.group, p.call, p.work
	*p = Pending{}
	done := (<-chan struct{})(c.wake)
	if w != &c.work {
		done = w.Done()
	}
	err := g.await(ctx, w, done)
	c.release(heldByCaller)
	return err
}
