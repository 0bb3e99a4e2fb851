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
// ctx ends or the group breaks; the error names the first tensor that failed by its index. The
// others then hold what came of them.
func Broadcast(ctx context.Context, g *pg.Group, tensors ...tensor.Tensor) error {
	if i, err := inFlight(ctx, g, pg.Op{Kind: pg.KindBroadcast, Root: 0}, tensors); err != nil {
		return fmt.Errorf("broadcast tensor %d of %d: %w", i, len(tensors), err)
	}
	return nil
}

// maxInFlight is how many ops of a model are under way at once: enough to hide what the start of
// one costs, few enough for any backend's queue.
const maxInFlight = 32

// inFlight runs op in place on each tensor, several at once. It returns the first error and of
// which tensor it is, after none is under way any more; it starts none after an error.
func inFlight(ctx context.Context, g *pg.Group, op pg.Op, tensors []tensor.Tensor) (failed int, first error) {
	ops := make([]pg.Pending, min(len(tensors), maxInFlight))
	wait := func(i int) {
		if err := ops[i%len(ops)].Wait(ctx); err != nil && first == nil {
			failed, first = i, err
		}
	}
	started := 0
	for ; started < len(tensors); started++ {
		if started >= len(ops) {
			wait(started - len(ops))
		}
		if first != nil {
			break
		}
		p := &ops[started%len(ops)]
		p.Start(g, op, tensors[started], tensors[started])
		if p.Done() { // refused, or no peer is needed
			wait(started)
		}
	}
	for i := max(started-len(ops), 0); i < started; i++ {
		wait(i)
	}
	return failed, first
}
