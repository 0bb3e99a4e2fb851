package capi

import (
	"context"
	"fmt"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/store"
)

// outside is the backend of a Manager beside whose group the program around has one of its own,
// for tensors that this library does not know, as those of devices. Each Configure wants it
// made, and it is over with the epoch: as soon as anything breaks that.
type outside struct {
	*pg.Layer

	l      *Library
	wishes *wishes
}

// Configure configures the group below, and waits for the program to have made its own.
func (o *outside) Configure(ctx context.Context, c pg.Config) error {
	if err := o.Layer.Configure(ctx, c); err != nil {
		return err
	}
	if err := o.beside(ctx, c); err != nil {
		err = fmt.Errorf("the group of the program: %w", err)
		o.Layer.Abort(c.Epoch(), err)
		return err
	}
	return nil
}

func (o *outside) beside(ctx context.Context, c pg.Config) error {
	broken := pg.BrokenOf(o.Layer.Unwrap(), c.Epoch())
	if broken == nil {
		return fmt.Errorf("%w: backend %q does not tell when it breaks", pg.ErrUnsupported, o.Name())
	}
	s, err := c.OpenStore(ctx)
	if err != nil {
		return err
	}
	g := &groupWish{Cluster: c.Cluster, QuorumID: c.QuorumID, Rank: c.Rank, Size: c.WorldSize()}
	g.Store = o.l.t.add(opened{store.WithPrefix(s, "outside")})
	go func() { // until the epoch is over, which it is with the group below
		<-broken
		o.wishes.tell(WishEnd, wish{Group: g})
		o.l.t.remove(g.Store)
		_ = s.Close() // it has only been asked
	}()
	err = o.wishes.ask(ctx, WishGroup, wish{Group: g}, broken)
	if broke := o.Err(); broke != nil {
		return broke
	}
	return err
}

// Submit passes on what is on the host.
func (o *outside) Submit(op *pg.Op) *pg.Work { return o.Unwrap().Submit(op) }
