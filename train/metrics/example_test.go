package metrics_test

import (
	"context"
	"fmt"

	"github.com/skerry-ft/skerry/tensor"
	"github.com/skerry-ft/skerry/train/metrics"
)

// A program that runs alone has no group; among others it gives theirs, and the numbers
// below are those of all ranks.
func Example() {
	ctx := context.Background()
	loss, err := metrics.SyncNumber(ctx, nil, 0.25, tensor.Avg)
	if err != nil {
		fmt.Println(err)
		return
	}
	pass, err := metrics.AllGatherGrad(ctx, nil, tensor.Of([]float32{1, 2}))
	if err != nil {
		fmt.Println(err)
		return
	}
	grad, err := pass.Backward(ctx, tensor.Of([]float32{0.5, 4}))
	fmt.Println(loss, pass.Out.Shape(), tensor.Slice[float32](grad), err)
	// Output: 0.25 [1 2] [0.5 4] <nil>
}
