package capi

import (
	"context"
	"time"

	"github.com/skerry-ft/skerry/dist/quant"
	"github.com/skerry-ft/skerry/pg"
)

// quantizedAllReduce is the kind of an all-reduce in eight bits per element, which a call is made of: its
// tensor is the one input, and its root the format.
const quantizedAllReduce = 12

// reduceQuantized starts it. Until it is done nothing else may be submitted to the group: on each rank
// its parts would come at another place among the operations.
func (l *Library) reduceQuantized(group int64, words []int64) int64 {
	g, err := get[*pg.Group](l.t, group)
	var op *pg.Op
	if err == nil {
		op, err = decode(append([]int64{1}, words[1:]...)) // an all-reduce but for the kind
	}
	if err == nil && len(op.In) != 1 {
		err = invalid("%d tensors, want 1", len(op.In))
	}
	if err == nil && (op.Root < 0 || op.Root > int(quant.E4M3)) {
		err = invalid("format = %d, want %d (%v) or %d (%v)", op.Root, quant.Int8, quant.Int8, quant.E4M3, quant.E4M3)
	}
	if err != nil {
		return l.t.add(work{g, pg.Finished(&pg.Op{}, err)})
	}
	var timeout time.Duration
	if !op.Deadline.IsZero() {
		timeout = max(time.Until(op.Deadline), 1) // 0 would be none
	}
	return l.start(timeout, func(ctx context.Context, _ *call) error {
		return quant.AllReduce(ctx, g, op.In[0], op.Reduce, quant.Options{Format: quant.Format(op.Root)})
	})
}
