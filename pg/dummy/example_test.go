package dummy_test

import (
	"context"
	"fmt"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/dummy"
	"github.com/skerry-ft/skerry/tensor"
)

// A program that wants a group runs alone.
func Example() {
	g := pg.NewGroup(dummy.New())
	defer g.Close()
	ctx := context.Background()
	if err := g.Configure(ctx, pg.Config{ReplicaIDs: []string{"alone"}, QuorumID: 1}); err != nil {
		fmt.Println(err)
		return
	}
	gradient := []float32{1, 2}
	fmt.Println(g.AllReduce(ctx, tensor.Of(gradient), tensor.Avg), gradient)
	// Output:
	// <nil> [1 2]
}
