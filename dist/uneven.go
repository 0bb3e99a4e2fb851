package dist

import (
	"context"
	"fmt"
	"slices"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// maxUnevenDims bounds the dimensions of what AllGatherUneven takes.
const maxUnevenDims = 16

// MaxUnevenBytes bounds what one rank may bring to AllGatherUneven: the others
// take its word for how much memory they need.
const MaxUnevenBytes = 1 << 34

// AllGatherUneven gives the tensors of all ranks, by rank, on every rank. They
// have one dtype and number of dimensions, but may differ in any dimension: they
// are padded to the largest, gathered as one, and trimmed. The results are
// fresh memory of the host, in each rank's own shape, and views of one buffer; a tensor on a
// device is copied to the host first. A nil group is a world of one.
//
// Source: gather_all_tensors of Lightning.
func AllGatherUneven(ctx context.Context, g *pg.Group, in tensor.Tensor) (out []tensor.Tensor, err error) {
	dims := in.Shape()
	switch {
	case in.IsNone() || !in.Contiguous():
		return nil, fmt.Errorf("%w: uneven all-gather of %v, want a contiguous tensor", pg.ErrInvalidOp, in)
	case len(dims) > maxUnevenDims || in.NumBytes() > MaxUnevenBytes:
		return nil, fmt.Errorf("%w: uneven all-gather of %v, want at most %d dimensions and %d bytes",
			pg.ErrInvalidOp, in, maxUnevenDims, MaxUnevenBytes)
	}
	if in, err = in.OnHost(); err != nil {
		return nil, err
	}
	if g == nil {
		own := tensor.New(in.DType(), dims...)
		copy(own.Bytes(), in.Bytes())
		return []tensor.Tensor{own}, nil
	}
	err = g.Compose(ctx, func(c *pg.Composed) error {
		out, err = allGatherUneven(ctx, c, in)
		return err
	})
	return out, err
}

func allGatherUneven(ctx context.Context, c *pg.Composed, in tensor.Tensor) ([]tensor.Tensor, error) {
	dtype, parts, err := gatherShapes(ctx, c, in)
	if err != nil {
		return nil, err
	}
	longest := 0
	for _, p := range parts {
		longest = max(longest, p.elements)
	}
	padded := in
	switch {
	case c.Rank() < 0: // whatever it has counts for nothing, and may not fit
		padded = tensor.New(dtype, longest)
	case in.Len() < longest:
		padded = tensor.New(dtype, longest)
		copy(padded.Bytes(), in.Bytes())
	}
	all := tensor.New(dtype, longest*len(parts))
	if err := c.AllGatherIntoTensor(ctx, padded, all); err != nil {
		return nil, fmt.Errorf("gather padded tensors: %w", err)
	}
	out := make([]tensor.Tensor, len(parts))
	for r, p := range parts {
		out[r], err = all.Flat(r*longest, r*longest+p.elements).Reshape(p.shape...)
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// unevenPart is what one rank brings to AllGatherUneven.
type unevenPart struct {
	shape    []int
	elements int
}

// gatherShapes tells all ranks the dtype and shape of this rank's tensor. It checks that
// all have rank 0's dtype and number of dimensions, which every rank sees alike.
func gatherShapes(ctx context.Context, c *pg.Composed, in tensor.Tensor) (tensor.DType, []unevenPart, error) {
	const width = 2 + maxUnevenDims
	mine := make([]int64, width)
	mine[0], mine[1] = int64(in.DType()), int64(len(in.Shape()))
	for i, d := range in.Shape() {
		mine[2+i] = int64(d)
	}
	all := make([]int64, c.Size()*width)
	if err := c.AllGatherIntoTensor(ctx, tensor.Of(mine), tensor.Of(all)); err != nil {
		return 0, nil, fmt.Errorf("gather shapes: %w", err)
	}
	dtype, dims := tensor.DType(all[0]), all[1]
	if all[0] < 0 || all[0] != int64(dtype) || !dtype.Valid() || dims < 0 || dims > maxUnevenDims {
		return 0, nil, fmt.Errorf("%w: rank 0 announces dtype %d with %d dimensions, want a dtype and at most %d",
			pg.ErrMismatch, all[0], dims, maxUnevenDims)
	}
	parts := make([]unevenPart, c.Size())
	for r := range parts {
		row := all[r*width : (r+1)*width]
		if !slices.Equal(row[:2], all[:2]) {
			return 0, nil, fmt.Errorf("%w: rank 0 gathers a %v of %d dimensions, rank %d a %v of %d",
				pg.ErrMismatch, dtype, dims, r, tensor.DType(row[0]), row[1])
		}
		var shape []int
		for _, d := range row[2 : 2+dims] {
			shape = append(shape, int(min(max(d, -1), tensor.MaxElements)))
		}
		n, err := tensor.Elements(dtype, shape)
		if err != nil || n > MaxUnevenBytes/dtype.Size() {
			return 0, nil, fmt.Errorf("%w: rank %d announces shape %v, want at most %d bytes", pg.ErrInvalidOp, r, shape, MaxUnevenBytes)
		}
		parts[r] = unevenPart{shape, n}
	}
	return dtype, parts, nil
}
