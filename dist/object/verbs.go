package object

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// notEncoded is sent as the size of an object that could not be encoded, so
// that no rank waits for it.
const notEncoded = -1

// Broadcast makes objects of every rank equal to those of root: values
// that Encode takes, with their types. All ranks give equal lengths. The
// elements of other ranks are ignored, and stay as they are on an error.
func Broadcast(ctx context.Context, g *pg.Group, objects []any, root int) error {
	return broadcast(ctx, g, values{}, objects, root)
}

// A codec is how the values of a call go over the wire. It says what a value takes in
// memory, of which left is allowed.
type codec[T any] interface {
	encode(v T) ([]byte, error)
	decode(b []byte, left int) (v T, taken int, err error)
}

// values is the codec of Encode and Decode.
type values struct{}

func (values) encode(v any) ([]byte, error) { return Encode(v) }

func (values) decode(b []byte, left int) (any, int, error) { return decode(b, left) }

func broadcast[T any](ctx context.Context, g *pg.Group, k codec[T], objects []T, root int) error {
	if len(objects) == 0 || len(objects) > pg.MaxTensors {
		return fmt.Errorf("%w: broadcast of %d objects, want 1 to %d", pg.ErrInvalidOp, len(objects), pg.MaxTensors)
	}
	return g.Compose(ctx, func(c *pg.Composed) error { return broadcastIn(ctx, c, k, objects, root) })
}

func broadcastIn[T any](ctx context.Context, c *pg.Composed, k codec[T], objects []T, root int) error {
	isRoot := c.Rank() == root
	sizes := make([]int64, len(objects))
	var encoded [][]byte
	var failed error
	if isRoot {
		encoded, failed = encodeAll(k, objects, sizes)
	}
	if err := c.Broadcast(ctx, tensor.Of(sizes), root); err != nil {
		return fmt.Errorf("broadcast sizes of objects: %w", err)
	}
	total, err := sumSizes(sizes, root)
	if failed != nil || err != nil {
		return cmp.Or(failed, err)
	}
	all := slices.Concat(encoded...)
	if !isRoot {
		all = make([]byte, total)
	}
	if err := c.Broadcast(ctx, tensor.Of(all), root); err != nil {
		return fmt.Errorf("broadcast objects: %w", err)
	}
	if isRoot {
		return nil
	}
	return decodeWithin(k, all, sizes, objects, MaxTotalMemory)
}

// AllGather gives the objects of all ranks, by rank, on every rank. Under pg.Managed
// these are the participants of the step's quorum, for which it waits.
func AllGather(ctx context.Context, g *pg.Group, object any) (objects []any, err error) {
	return gather(ctx, g, values{}, object, pg.Op{Kind: pg.KindAllGather})
}

// Gather gives the objects of all ranks, by rank, at root, and nil
// elsewhere.
func Gather(ctx context.Context, g *pg.Group, object any, root int) (objects []any, err error) {
	return gather(ctx, g, values{}, object, pg.Op{Kind: pg.KindGather, Root: root})
}

// gather gives the objects of all ranks where op, an all-gather or a gather without its
// tensors, has results.
func gather[T any](ctx context.Context, g *pg.Group, k codec[T], object T, op pg.Op) (objects []T, err error) {
	err = g.Compose(ctx, func(c *pg.Composed) error {
		// Everybody learns all sizes: if one could not encode, nobody waits for it.
		mine, sizes, total, err := shareSizes(ctx, c, k, object)
		if err != nil {
			return err
		}
		all := make([]byte, total)
		op := op // the verb may begin anew
		op.In = []tensor.Tensor{tensor.Of(mine)}
		hasResults := op.Kind == pg.KindAllGather || c.Rank() == op.Root
		if hasResults {
			op.Out = cut(all, sizes)
		}
		if err := c.Do(ctx, &op); err != nil {
			return fmt.Errorf("gather objects: %w", err)
		}
		if !hasResults {
			return nil
		}
		objects = make([]T, len(sizes))
		return decodeWithin(k, all, sizes, objects, MaxTotalMemory)
	})
	return objects, err
}

// shareSizes encodes this rank's object and tells all how large those of all ranks are. A
// member that does not participate gives as many bytes as participant 0 instead, as the
// slots of such members are as large; they count for nothing.
func shareSizes[T any](ctx context.Context, c *pg.Composed, k codec[T], object T) (mine []byte, sizes []int64, total int, err error) {
	mine, failed := k.encode(object)
	sizes = make([]int64, c.Size())
	if err := c.AllGatherIntoTensor(ctx, tensor.Of([]int64{announced(mine, failed)}), tensor.Of(sizes)); err != nil {
		return nil, nil, 0, fmt.Errorf("gather sizes of objects: %w", err)
	}
	total, err = sumSizes(sizes, -1)
	switch {
	case c.Rank() >= 0 && failed != nil:
		return nil, nil, 0, failed
	case err != nil:
		return nil, nil, 0, err
	case c.Rank() < 0:
		mine = make([]byte, sizes[0])
	}
	return mine, sizes, total, nil
}

// Scatter gives objects[r] of root to rank r. Root gives as many objects as there are ranks;
// what other ranks give is ignored.
func Scatter(ctx context.Context, g *pg.Group, objects []any, root int) (object any, err error) {
	return scatter(ctx, g, values{}, objects, root)
}

func scatter[T any](ctx context.Context, g *pg.Group, k codec[T], objects []T, root int) (object T, err error) {
	err = g.Compose(ctx, func(c *pg.Composed) error {
		object, err = scatterIn(ctx, c, k, objects, root)
		return err
	})
	return object, err
}

func scatterIn[T any](ctx context.Context, c *pg.Composed, k codec[T], objects []T, root int) (object T, err error) {
	sizes := make([]int64, c.Size())
	var encoded [][]byte
	var failed error
	if c.Rank() == root {
		if len(objects) == c.Size() {
			encoded, failed = encodeAll(k, objects, sizes)
		} else {
			failed = fmt.Errorf("%w: scatter of %d objects, want %d", pg.ErrInvalidOp, len(objects), c.Size())
			sizes[0] = notEncoded
		}
	}
	if err := c.Broadcast(ctx, tensor.Of(sizes), root); err != nil {
		return object, fmt.Errorf("broadcast sizes of objects: %w", err)
	}
	_, err = sumSizes(sizes, root)
	if failed != nil || err != nil {
		return object, cmp.Or(failed, err)
	}
	op := &pg.Op{Kind: pg.KindScatter, Root: root}
	for _, b := range encoded {
		op.In = append(op.In, tensor.Of(b))
	}
	// A member that does not participate takes as much as participant 0, and keeps nothing.
	mine := make([]byte, sizes[max(c.Rank(), 0)])
	op.Out = []tensor.Tensor{tensor.Of(mine)}
	if err := c.Do(ctx, op); err != nil {
		return object, fmt.Errorf("scatter objects: %w", err)
	}
	object, _, err = k.decode(mine, MaxMemory)
	return object, err
}

func announced(b []byte, failed error) int64 {
	if failed != nil {
		return notEncoded
	}
	return int64(len(b))
}

// encodeAll encodes objects and fills sizes, the failed one with notEncoded.
func encodeAll[T any](k codec[T], objects []T, sizes []int64) ([][]byte, error) {
	encoded := make([][]byte, len(objects))
	for i, object := range objects {
		b, err := k.encode(object)
		sizes[i], encoded[i] = announced(b, err), b
		if err != nil {
			return nil, fmt.Errorf("object %d: %w", i, err)
		}
	}
	return encoded, nil
}

// sumSizes adds up what peers announce, and refuses what is out of bounds. Root
// is who announced all, or -1: each its own.
func sumSizes(sizes []int64, root int) (int, error) {
	total := 0
	for i, n := range sizes {
		from := root
		if root < 0 {
			from = i
		}
		if n == notEncoded {
			return 0, fmt.Errorf("%w: rank %d could not encode its own", ErrInvalid, from)
		}
		if n < 0 || n > MaxBytes || total+int(n) > MaxTotalBytes {
			return 0, fmt.Errorf("%w: rank %d announces %d bytes after %d, want at most %d and %d together",
				ErrInvalid, from, n, total, MaxBytes, MaxTotalBytes)
		}
		total += int(n)
	}
	return total, nil
}

// MaxTotalBytes bounds all objects of one call, encoded.
const MaxTotalBytes = 1 << 30

// cut makes a tensor of every size over b.
func cut(b []byte, sizes []int64) []tensor.Tensor {
	parts := make([]tensor.Tensor, len(sizes))
	for i, n := range sizes {
		parts[i] = tensor.Of(b[:n:n])
		b = b[n:]
	}
	return parts
}

// decodeWithin decodes objects that together take at most left bytes of memory.
func decodeWithin[T any](k codec[T], b []byte, sizes []int64, objects []T, left int) error {
	for i, n := range sizes {
		v, taken, err := k.decode(b[:n], min(left, MaxMemory))
		if err != nil {
			return fmt.Errorf("object %d: %w", i, err)
		}
		left -= taken
		objects[i], b = v, b[n:]
	}
	return nil
}
