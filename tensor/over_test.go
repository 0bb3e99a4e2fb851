package tensor_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/tensor"
)

// dense is a tensor as gorgonia.org/tensor has it: a backing slice in an interface, a
// shape of a named type, and strides.
type dense struct {
	backing any
	shape   namedShape
	strides []int
}

type namedShape []int

func (d *dense) Data() any         { return d.backing }
func (d *dense) Shape() namedShape { return d.shape }
func (d *dense) Strides() []int    { return d.strides }

func ExampleOver() {
	d := &dense{backing: []float32{1, 2, 3, 4, 5, 6}, shape: namedShape{2, 3}, strides: []int{3, 1}}
	x, err := tensor.Over(d.Data(), d.Shape(), d.Strides())
	if err != nil {
		fmt.Println(err)
		return
	}
	copy(tensor.Slice[float32](x), []float32{10, 20}) // as a collective would
	fmt.Println(x, d.backing)
	// Output: float32[2 3] [10 20 3 4 5 6]
}

// Every element type is taken, with its dtype and over the same memory.
func TestOver(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		backing any
		want    tensor.DType
	}{
		{[]float32{1, 2, 3, 4}, tensor.Float32}, {[]float64{1, 2, 3, 4}, tensor.Float64},
		{make([]tensor.F16, 4), tensor.Float16}, {make([]tensor.BF16, 4), tensor.BFloat16},
		{[]int8{1, 2, 3, 4}, tensor.Int8}, {[]int16{1, 2, 3, 4}, tensor.Int16}, {[]int32{1, 2, 3, 4}, tensor.Int32}, {[]int64{1, 2, 3, 4}, tensor.Int64},
		{[]uint8{1, 2, 3, 4}, tensor.Uint8}, {[]uint16{1, 2, 3, 4}, tensor.Uint16}, {[]uint32{1, 2, 3, 4}, tensor.Uint32}, {[]uint64{1, 2, 3, 4}, tensor.Uint64},
		{[]bool{true, false, true, false}, tensor.Bool}, {[]complex64{1, 2, 3, 4}, tensor.Complex64}, {[]complex128{1, 2, 3, 4}, tensor.Complex128},
		{[]int{1, 2, 3, 4}, tensor.Int64}, {[]uint{1, 2, 3, 4}, tensor.Uint64},
	} {
		x, err := tensor.Over(c.backing, []int{2, 2}, nil)
		if err != nil || x.DType() != c.want || !slices.Equal(x.Shape(), []int{2, 2}) || !x.Contiguous() {
			t.Errorf("over %T: %v, %v, want a contiguous %v", c.backing, x, err, c.want)
			continue
		}
		x.Bytes()[0] ^= 1
		again, err := tensor.Over(c.backing, []int{4}, nil)
		if err != nil || !slices.Equal(again.Bytes(), x.Bytes()) {
			t.Errorf("over %T: a write to the view is not in the slice: %v", c.backing, err)
		}
	}
	rows, err := tensor.Over([]float64{1, 2, 0, 3, 4, 0}, []int{2, 2}, []int{3, 1}) // gonum's, with a stride
	if err != nil || rows.Contiguous() || rows.Bytes() != nil {
		t.Errorf("rows with gaps: %v, %v, want a view that is not contiguous", rows, err)
	}
	for _, c := range []struct {
		backing        any
		shape, strides []int
		want           string
	}{
		{[]string{"a"}, []int{1}, nil, "view of []string, want a slice of numbers or bools"},
		{nil, []int{1}, nil, "view of <nil>"},
		{float32(1), nil, nil, "view of float32, want a slice of numbers or bools ([]float32, []int64, …), of a scalar one of length 1"},
		{7, nil, nil, "view of int, want a slice of numbers or bools"},
		{[]float32{1, 2, 3}, []int{2, 2}, nil, "reach 4 elements, tensor has 3"},
		{[]float32{1, 2, 3, 4}, []int{2, 2}, []int{2}, "1 strides for 2 dimensions"},
		{[]float32{1, 2}, []int{-1}, nil, "-1"},
	} {
		if _, err := tensor.Over(c.backing, c.shape, c.strides); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("over %T %v %v: %v, want %q", c.backing, c.shape, c.strides, err, c.want)
		}
	}
}
