package pg_test

import (
	"context"
	"fmt"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/dummy"
	"github.com/skerry-ft/skerry/tensor"
)

// naming is a decorator that puts the kind of op before its error.
type naming struct {
	*pg.Layer

	relays *pg.Relays[string] // what the op is called
}

func newNaming(b pg.Backend) *naming {
	n := &naming{Layer: pg.NewLayer(b)}
	n.relays = pg.NewRelays(func(r *pg.Relay[string], err error) error {
		if err != nil {
			return fmt.Errorf("%s: %w", r.State, err)
		}
		return nil
	})
	return n
}

// Submit starts op.
func (n *naming) Submit(op *pg.Op) *pg.Work {
	r := n.relays.Begin(op)
	r.State = op.Kind.String()
	work := r.Work() // r may be gone when Submit returns
	r.Submit(n.Unwrap(), *op)
	return work
}

// A decorator has a Layer, and takes a Relay for each op whose end it wants to see.
func ExampleLayer() {
	g := pg.NewGroup(newNaming(dummy.New()))
	ctx := context.Background()
	if err := g.Configure(ctx, pg.Config{ReplicaIDs: []string{"alone"}, QuorumID: 1}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(g.AllReduce(ctx, tensor.Of([]float32{1}), tensor.Sum))
	fmt.Println(g.Broadcast(ctx, tensor.Of([]float32{1}), 7))
	// Output:
	// <nil>
	// broadcast: pg: invalid op: broadcast with root 7, want 0 to 0
}
