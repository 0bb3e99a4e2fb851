package ddp

import (
	"context"
	"fmt"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// Broadcast copies rank 0's parameters and buffers into those of the other ranks of
// g, one op each: before the first step over a plain group, and before a forward
// pass for buffers. Under a manager the heal does it. Every rank must call it with
// tensors of equal shapes and dtypes in one order. It blocks until all are there,
// ctx ends or the group breaks; the error names the tensor by its index.
func Broadcast(ctx context.Context, g *pg.Group, tensors ...tensor.Tensor) error {
	for i, t := range tensors {
		if err := g.Broadcast(ctx, t, 0); err != nil {
			return fmt.Errorf("broadcast tensor %d of %d: %w", i, len(tensors), err)
		}
	}
	return nil
}
