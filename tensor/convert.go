package tensor

import "fmt"

// Convert writes the elements of src to dst in dst's dtype. Both are contiguous host
// memory of float16, bfloat16, float32 or float64 and of one Len, and share no memory
// unless they are the same tensor. Widening is exact; narrowing rounds to the nearest,
// ties to even, and what is out of range becomes an infinity, as torch's Tensor.to does.
// Between float64 and the 16-bit floats it goes through float32, and rounds twice.
//
// It allocates nothing. Errors wrap ErrUndefined. Cost: one pass over both.
func Convert(dst, src Tensor) error {
	if dst.Len() != src.Len() || dst.NumBytes() != len(dst.Bytes()) || src.NumBytes() != len(src.Bytes()) ||
		!dst.DType().converts() || !src.DType().converts() {
		return fmt.Errorf("%w: convert %v to %v, want contiguous host memory of float16, bfloat16, float32 or float64, and one length",
			ErrUndefined, src, dst)
	}
	if src.DType() == dst.DType() {
		copy(dst.Bytes(), src.Bytes())
		return nil
	}
	var wide [tileElements]float32
	for lo := 0; lo < src.Len(); lo += tileElements {
		hi := min(lo+tileElements, src.Len())
		part, into := src.Flat(lo, hi), dst.Flat(lo, hi)
		floats := wide[:hi-lo]
		switch src.DType() {
		case Float32:
			floats = Slice[float32](part)
		case Float64:
			for i, v := range Slice[float64](part) {
				floats[i] = float32(v)
			}
		default:
			widenHalves(src.DType(), floats, halvesOf(part))
		}
		switch dst.DType() {
		case Float32:
			copy(Slice[float32](into), floats)
		case Float64:
			for i, v := range floats {
				Slice[float64](into)[i] = float64(v)
			}
		default:
			roundHalves(dst.DType(), halvesOf(into), floats)
		}
	}
	return nil
}

func (d DType) converts() bool {
	return d == Float16 || d == BFloat16 || d == Float32 || d == Float64
}

// halvesOf is the memory of a tensor of a 16-bit dtype.
func halvesOf(t Tensor) []uint16 {
	s, ok := sliceOf[uint16](t.Bytes())
	if !ok {
		panic(fmt.Sprintf("tensor: %v over memory that is not aligned for it", t))
	}
	return s
}
