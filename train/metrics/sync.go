package metrics

import (
	"context"
	"fmt"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// Sync reduces t over all ranks, in place, by any reduce op but PreMulSum. Avg of integers
// divides in their type, towards zero, where pg.Group.AllReduce refuses it.
//
// Cost: an all-reduce; a mean of integers on a device takes a copy to the host and back.
// Source: sync_ddp, sync_ddp_if_available of Lightning.
func Sync(ctx context.Context, g *pg.Group, t tensor.Tensor, op tensor.ReduceOp) error {
	mean := op == tensor.Avg && t.DType().IsInteger()
	if mean {
		op = tensor.Sum
	}
	if op == tensor.PreMulSum {
		return fmt.Errorf("%w: sync by %v, want a reduce op without a factor", pg.ErrInvalidOp, op)
	}
	reduce := pg.Op{Kind: pg.KindAllReduce, Reduce: op, In: []tensor.Tensor{t}, Out: []tensor.Tensor{t}}
	if err := reduce.Validate(0, 1); err != nil || g == nil {
		return err
	}
	return g.Compose(ctx, func(c *pg.Composed) error {
		once := reduce // the verb may begin anew
		if err := c.Do(ctx, &once); err != nil {
			return fmt.Errorf("sync %v: %w", t, err)
		}
		if !mean {
			return nil
		}
		return divide(t, c.Size())
	})
}

// SyncNumber is Sync of a number: what all ranks' make together.
func SyncNumber[T tensor.Element](ctx context.Context, g *pg.Group, v T, op tensor.ReduceOp) (T, error) {
	one := []T{v}
	err := Sync(ctx, g, tensor.Of(one), op)
	return one[0], err
}

// divide divides integers by n, 1 or more.
func divide(t tensor.Tensor, n int) error {
	mem, offset := t.Memory()
	host, err := t.OnHost()
	if err != nil {
		return err
	}
	switch t.DType() {
	case tensor.Uint8:
		divideAll(tensor.Slice[uint8](host), n)
	case tensor.Int8:
		divideAll(tensor.Slice[int8](host), n)
	case tensor.Int16:
		divideAll(tensor.Slice[int16](host), n)
	case tensor.Int32:
		divideAll(tensor.Slice[int32](host), n)
	case tensor.Int64:
		divideAll(tensor.Slice[int64](host), n)
	case tensor.Uint16:
		divideAll(tensor.Slice[uint16](host), n)
	case tensor.Uint32:
		divideAll(tensor.Slice[uint32](host), n)
	case tensor.Uint64:
		divideAll(tensor.Slice[uint64](host), n)
	}
	if mem != nil {
		if err := mem.CopyFromHost(offset, host.Bytes()); err != nil {
			return fmt.Errorf("copy the mean to %v: %w", t, err)
		}
	}
	return nil
}

// divideAll divides in 64 bits: n itself need not fit the type.
func divideAll[T uint8 | int8 | int16 | int32 | int64 | uint16 | uint32 | uint64](s []T, n int) {
	signed := ^T(0) < 0
	for i, v := range s {
		if signed {
			s[i] = T(int64(v) / int64(n))
		} else {
			s[i] = T(uint64(v) / uint64(n))
		}
	}
}
