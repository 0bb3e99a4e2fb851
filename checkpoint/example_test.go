package checkpoint_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/tensor"
)

// A donor serves its state, a target fills its own tensors with it.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	donor, err := checkpoint.NewHTTP(checkpoint.HTTPConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	target, err := checkpoint.NewHTTP(checkpoint.HTTPConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, t := range []*checkpoint.HTTP{donor, target} {
		wg.Go(func() { _ = t.Run(ctx) }) // ends with ctx
	}

	weights := []float32{1, 2, 3}
	save := func() (checkpoint.State, error) {
		return checkpoint.State{
			Tensors: map[string]tensor.Tensor{"weights": tensor.Of(weights)},
			Meta:    map[string]string{"step": "5"},
		}, nil
	}
	if err := donor.Serve("cluster/5/2", save); err != nil {
		fmt.Println(err)
		return
	}
	healed := make([]float32, 3)
	into, err := checkpoint.NewMirror(
		checkpoint.State{Tensors: map[string]tensor.Tensor{"weights": tensor.Of(healed)}}, checkpoint.MirrorOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	meta, err := target.Fetch(ctx, "cluster/5/2", []string{donor.Metadata()}, into)
	if err == nil {
		err = into.Install("cluster/5/2")
	}
	fmt.Println(healed, meta["step"], into.Received(), err)
	donor.Pause() // the weights may change
	weights[0] = 7
	// Output: [1 2 3] 5 12 <nil>
}
