package fault_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/dummy"
	"github.com/skerry-ft/skerry/pg/fault"
	"github.com/skerry-ft/skerry/tensor"
)

// The second all-reduce breaks the group, as a broken link does: it fails, and so does the
// third.
func Example() {
	injector := fault.NewInjector(dummy.New())
	g := pg.NewGroup(injector)
	defer g.Close()
	ctx := context.Background()
	if err := g.Configure(ctx, pg.Config{ReplicaIDs: []string{"alone"}, QuorumID: 1}); err != nil {
		fmt.Println(err)
		return
	}
	broken := errors.New("link broken")
	injector.Inject(fault.Fault{Kind: pg.KindAllReduce, Nth: 2, Err: broken})
	gradient := []float32{1, 2}
	for range 3 {
		err := g.AllReduce(ctx, tensor.Of(gradient), tensor.Avg)
		fmt.Println(errors.Is(err, broken), injector.Fired())
	}
	// Output:
	// false 0
	// true 1
	// true 1
}
