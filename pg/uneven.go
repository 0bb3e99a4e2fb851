package pg

import (
	"context"
	"fmt"
	"slices"
)

// maxUnevenDims bounds the dimensions of what AllGatherUneven takes.
const maxUnevenDims = 16

// MaxUnevenBytes bounds what one rank may bring to AllGatherUneven: the others
// take its word for how much memory they need.
const MaxUnevenBytes = 1 << 34

// AllGatherUneven gives the tensors of all ranks, by rank, on every rank. They
// have one dtype and number of dimensions, but may differ in any dimension: they
// are padded to the largest, gathered as one, and trimmed. The results are
// fresh memory, in each rank's own shape, and views of one buffer.
//
// Source: gather_all_tensors of Lightning.
func (g *Group) AllGatherUneven(ctx context.Context, in Tensor) ([]Tensor, error) {
	shapes, err := g.gatherShapes(ctx, in)
	if err != nil {
		return nil, err
	}
	longest := 0
	for _, shape := range shapes {
		longest = max(longest, product(shape))
	}
	padded := in
	if in.Len() < longest {
		padded = New(in.DType(), longest)
		copy(padded.Bytes(), in.Bytes())
	}
	all := New(in.DType(), longest*len(shapes))
	if err := g.seen(g.AllGatherIntoTensor(ctx, padded, all)); err != nil {
		return nil, fmt.Errorf("gather padded tensors: %w", err)
	}
	out := make([]Tensor, len(shapes))
	for r, shape := range shapes {
		out[r], err = all.Slice(r*longest, r*longest+product(shape)).Reshape(shape...)
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// gatherShapes tells all ranks the shape of this rank's tensor, and checks that
// the others fit.
func (g *Group) gatherShapes(ctx context.Context, in Tensor) ([][]int, error) {
	dims := in.Shape()
	switch {
	case in.IsNone() || in.Bytes() == nil && in.Len() > 0:
		return nil, fmt.Errorf("%w: uneven all-gather of %v, want contiguous memory of the cpu", ErrInvalidOp, in)
	case len(dims) > maxUnevenDims || in.NumBytes() > MaxUnevenBytes:
		return nil, fmt.Errorf("%w: uneven all-gather of %v, want at most %d dimensions and %d bytes",
			ErrInvalidOp, in, maxUnevenDims, MaxUnevenBytes)
	}
	const width = 2 + maxUnevenDims
	mine := make([]int64, width)
	mine[0], mine[1] = int64(in.DType()), int64(len(dims))
	for i, d := range dims {
		mine[2+i] = int64(d)
	}
	size := max(g.Size(), 1)
	all := make([]int64, size*width)
	if err := g.seen(g.AllGatherIntoTensor(ctx, Of(mine), Of(all))); err != nil {
		return nil, fmt.Errorf("gather shapes: %w", err)
	}
	shapes := make([][]int, size)
	for r := range shapes {
		row := all[r*width : (r+1)*width]
		if !slices.Equal(row[:2], mine[:2]) {
			return nil, fmt.Errorf("%w: rank %d gathers %v, rank %d a %v of %d dimensions",
				ErrMismatch, g.Rank(), in, r, DType(row[0]), row[1])
		}
		for _, d := range row[2 : 2+len(dims)] {
			shapes[r] = append(shapes[r], int(min(max(d, -1), maxElements)))
		}
		n, err := elements(in.DType(), shapes[r])
		if err != nil || n > MaxUnevenBytes/in.DType().Size() {
			return nil, fmt.Errorf("%w: rank %d announces shape %v, want at most %d bytes", ErrInvalidOp, r, shapes[r], MaxUnevenBytes)
		}
	}
	return shapes, nil
}
