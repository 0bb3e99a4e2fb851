package observe_test

import (
	"context"
	"fmt"
	"time"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/dummy"
	"github.com/skerry-ft/skerry/pg/observe"
	"github.com/skerry-ft/skerry/tensor"
)

// printer is an Observer that prints what it is told.
type printer struct{}

func (printer) Begin(i observe.Info) { fmt.Println("begin", i.Kind, i.DType, i.InBytes, "bytes") }

func (printer) End(i observe.Info, _ time.Duration, err error) { fmt.Println("end", i.Kind, err) }

// An Observer is told of every op, also of one that fails.
func Example() {
	g := pg.NewGroup(observe.New(dummy.New(), printer{}))
	defer g.Close()
	ctx := context.Background()
	if err := g.Configure(ctx, pg.Config{ReplicaIDs: []string{"alone"}, QuorumID: 1}); err != nil {
		fmt.Println(err)
		return
	}
	_ = g.AllReduce(ctx, tensor.Of([]float32{1, 2}), tensor.Sum) // End prints its error
	_ = g.Broadcast(ctx, tensor.Of([]int64{1}), 7)               // here too
	// Output:
	// begin all-reduce float32 8 bytes
	// end all-reduce <nil>
	// begin broadcast int64 8 bytes
	// end broadcast pg: invalid op: broadcast with root 7, want 0 to 0
}
