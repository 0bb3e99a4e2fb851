package quant_test

import (
	"context"
	"fmt"
	"log"

	"github.com/skerry-ft/skerry/dist/quant"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/dummy"
	"github.com/skerry-ft/skerry/tensor"
)

// The average over one rank, which is what eight bits leave of its elements.
func ExampleAllReduce() {
	ctx := context.Background()
	g := pg.NewGroup(dummy.New())
	if err := g.Configure(ctx, pg.Config{StoreAddress: "example", ReplicaIDs: []string{"a"}}); err != nil {
		log.Fatal(err)
	}
	x := []float32{127, -64, 0.4, 0.6}
	if err := quant.AllReduce(ctx, g, tensor.Of(x), tensor.Avg, quant.Options{}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(x)
	// Output: [127 -64 0 1]
}
