package localsgd_test

import (
	"context"
	"fmt"
	"log"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/dummy"
	"github.com/skerry-ft/skerry/tensor"
	"github.com/skerry-ft/skerry/train/localsgd"
)

// Three rounds of DiLoCo, of four inner steps each. A program has a *manager.Manager where
// this example has a stand-in for one whose replica is alone.
func Example() {
	ctx := context.Background()
	group := pg.NewGroup(dummy.New())
	if err := group.Configure(ctx, pg.Config{StoreAddress: "example", ReplicaIDs: []string{"a"}}); err != nil {
		log.Fatal(err)
	}
	m := &fake{group: group}
	weights := []float32{8}
	d, err := localsgd.NewDiLoCo(m, [][]localsgd.Param{{{Name: "weights", Value: tensor.Of(weights)}}}, localsgd.DiLoCoConfig{
		Every: 4, Rounds: 3, Outer: localsgd.SGD{Rate: 0.5},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	for !d.Done() {
		if err := d.Begin(ctx); err != nil {
			log.Fatal(err)
		}
		weights[0]-- // forward, backward, the inner optimizer's step
		committed, err := d.Step(ctx)
		if err != nil {
			log.Fatal(err)
		}
		if committed {
			fmt.Println("round", d.Rounds(), "weights", weights, "sent", d.Sent().Bytes, "bytes")
		}
	}
	// Output:
	// round 1 weights [6] sent 4 bytes
	// round 2 weights [4] sent 4 bytes
	// round 3 weights [2] sent 4 bytes
}
