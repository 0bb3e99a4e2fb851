package tensor

import (
	"fmt"
	"strconv"
	"unsafe"
)

// Over views the memory of another library's tensor, without a copy: backing is its slice
// of an [Element] type, []int8 to []complex128, of which the tensor takes what shape and
// strides (in elements; nil: row by row) reach. A []int or []uint, as gorgonia.org/tensor has for
// its Int and Uint, is one of Int64 or Uint64 where Go's int has 64 bits, and refused elsewhere:
// other replicas would have elements of another size.
//
//	gorgonia.org/tensor   tensor.Over(d.Data(), d.Shape(), d.Strides())
//	gonum's mat.Dense     m := d.RawMatrix(); tensor.Over(m.Data, []int{m.Rows, m.Cols}, []int{m.Stride, 1})
//
// A view that has gaps, or is column by column, is made, and refused by collectives, as
// AsStrided says. The library must not move or free the memory meanwhile.
func Over(backing any, shape, strides []int) (Tensor, error) {
	flat, ok := flatOf(backing)
	if !ok {
		return Tensor{}, fmt.Errorf("tensor: view of %T, want a slice of numbers or bools ([]float32, []int64, …), of a scalar one of length 1", backing)
	}
	if strides == nil {
		strides = rowMajor(shape)
	}
	return flat.AsStrided(shape, strides)
}

// flatOf is Of for a slice in an interface.
func flatOf(backing any) (Tensor, bool) {
	switch s := backing.(type) {
	case []float32:
		return Of(s), true
	case []float64:
		return Of(s), true
	case []F16:
		return Of(s), true
	case []BF16:
		return Of(s), true
	case []int8:
		return Of(s), true
	case []int16:
		return Of(s), true
	case []int32:
		return Of(s), true
	case []int64:
		return Of(s), true
	case []uint8:
		return Of(s), true
	case []uint16:
		return Of(s), true
	case []uint32:
		return Of(s), true
	case []uint64:
		return Of(s), true
	case []bool:
		return Of(s), true
	case []complex64:
		return Of(s), true
	case []complex128:
		return Of(s), true
	case []int:
		return wordsOf[int64](s)
	case []uint:
		return wordsOf[uint64](s)
	}
	return Tensor{}, false
}

// wordsOf is Of for a slice of words, which are of type T where they have 64 bits.
func wordsOf[T int64 | uint64, W int | uint](s []W) (Tensor, bool) {
	if strconv.IntSize != 64 {
		return Tensor{}, false
	}
	return Of(unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(s))), len(s))), true
}
