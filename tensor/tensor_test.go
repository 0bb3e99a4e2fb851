package tensor_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/tensor"
)

type celsius float32

func TestOfIsAView(t *testing.T) {
	s := []float32{1, 2, 3}
	x := tensor.Of(s)
	if x.DType() != tensor.Float32 || x.Len() != 3 || x.NumBytes() != 12 || !x.Contiguous() {
		t.Errorf("tensor is %v, %d bytes", x, x.NumBytes())
	}
	if !slices.Equal(x.Shape(), []int{3}) || !slices.Equal(x.Strides(), []int{1}) || x.Device() != tensor.CPU() {
		t.Errorf("shape %v, strides %v on %v", x.Shape(), x.Strides(), x.Device())
	}
	tensor.Slice[float32](x)[1] = 20
	if s[1] != 20 {
		t.Errorf("slice is %v after a write to the tensor", s)
	}
	if got := tensor.Slice[celsius](tensor.Of([]celsius{5})); got[0] != 5 {
		t.Errorf("named element type: %v", got)
	}
	if n := testing.AllocsPerRun(100, func() { x = tensor.Of(s); x = x.Slice(1, 2) }); n != 0 {
		t.Errorf("Of and Slice allocate %v times", n)
	}
}

func TestDTypes(t *testing.T) {
	check := func(got, want tensor.DType, size int) {
		t.Helper()
		if got != want || got.Size() != size || !got.Valid() {
			t.Errorf("dtype is %v of size %d, want %v of %d", got, got.Size(), want, size)
		}
		if parsed, err := tensor.ParseDType(got.String()); err != nil || parsed != got {
			t.Errorf("ParseDType(%q) = %v, %v", got, parsed, err)
		}
	}
	check(tensor.DTypeOf[uint8](), tensor.Uint8, 1)
	check(tensor.DTypeOf[int8](), tensor.Int8, 1)
	check(tensor.DTypeOf[int16](), tensor.Int16, 2)
	check(tensor.DTypeOf[int32](), tensor.Int32, 4)
	check(tensor.DTypeOf[int64](), tensor.Int64, 8)
	check(tensor.DTypeOf[uint16](), tensor.Uint16, 2)
	check(tensor.DTypeOf[uint32](), tensor.Uint32, 4)
	check(tensor.DTypeOf[uint64](), tensor.Uint64, 8)
	check(tensor.DTypeOf[bool](), tensor.Bool, 1)
	check(tensor.DTypeOf[tensor.F16](), tensor.Float16, 2)
	check(tensor.DTypeOf[tensor.BF16](), tensor.BFloat16, 2)
	check(tensor.DTypeOf[float32](), tensor.Float32, 4)
	check(tensor.DTypeOf[float64](), tensor.Float64, 8)
	check(tensor.DTypeOf[complex64](), tensor.Complex64, 8)
	check(tensor.DTypeOf[complex128](), tensor.Complex128, 16)
	if n := len(tensor.DTypes()); n != 15 {
		t.Errorf("%d dtypes, want 15", n)
	}
	if _, err := tensor.ParseDType("float8"); err == nil {
		t.Error("float8 is no dtype, yet it parsed")
	}
}

func TestShapes(t *testing.T) {
	x := tensor.New(tensor.Int32, 2, 3)
	s := tensor.Slice[int32](x)
	for i := range s {
		s[i] = int32(i)
	}
	if got := x.Strides(); !slices.Equal(got, []int{3, 1}) {
		t.Errorf("strides %v, want [3 1]", got)
	}
	row := x.Slice(1, 2)
	if got := tensor.Slice[int32](row); !slices.Equal(got, []int32{3, 4, 5}) || !slices.Equal(row.Shape(), []int{1, 3}) {
		t.Errorf("row is %v of shape %v", got, row.Shape())
	}
	y, err := x.Reshape(3, -1)
	if err != nil || !slices.Equal(y.Shape(), []int{3, 2}) || !y.SameMemory(x) {
		t.Errorf("reshaped to %v, %v", y, err)
	}
	if _, err := x.Reshape(4, -1); err == nil {
		t.Error("6 elements cannot have 4 rows")
	}
	if _, err := x.Reshape(7); err == nil {
		t.Error("6 elements cannot become 7")
	}
	column, err := x.AsStrided([]int{2}, []int{3})
	if err != nil || column.Contiguous() || column.Bytes() != nil || column.Len() != 2 {
		t.Errorf("column is %v, %v", column, err)
	}
	if _, err := column.Reshape(1, 2); err == nil {
		t.Error("a strided tensor cannot be reshaped")
	}
	if _, err := x.AsStrided([]int{3}, []int{3}); err == nil {
		t.Error("a view beyond the memory was made")
	}
	transposed, _ := x.AsStrided([]int{3, 2}, []int{1, 3})
	if tail := transposed.Slice(1, 3); tail.Len() != 4 || tail.Contiguous() {
		t.Errorf("slice of a transposed tensor is %v", tail)
	}
	scalar := tensor.New(tensor.Float64)
	if scalar.NumDims() != 0 || scalar.Rows() != 1 || scalar.RowLen() != 1 || len(scalar.AppendShape(nil)) != 0 {
		t.Errorf("scalar of %d dimensions, %d rows of %d", scalar.NumDims(), scalar.Rows(), scalar.RowLen())
	}
	if scalar.Len() != 1 || len(scalar.Shape()) != 0 || !scalar.Contiguous() {
		t.Errorf("scalar is %v", scalar)
	}
	if empty := tensor.New(tensor.Float32, 0, 5); empty.Len() != 0 || !empty.Contiguous() || empty.Slice(0, 0).Len() != 0 {
		t.Errorf("empty is %v", empty)
	}
	ones, _ := x.AsStrided([]int{1, 6, 1}, []int{99, 1, 42})
	if !ones.Contiguous() {
		t.Errorf("strides of dimensions of size 1 do not matter: %v", ones)
	}
}

// TestFlat: a flat part, and another tensor's shape, without an allocation.
func TestFlat(t *testing.T) {
	x := tensor.New(tensor.Int32, 2, 3)
	if x.NumDims() != 2 || x.Rows() != 2 || x.RowLen() != 3 || !slices.Equal(x.AppendShape([]int{9}), []int{9, 2, 3}) {
		t.Errorf("%d dimensions, %d rows of %d, shape %v", x.NumDims(), x.Rows(), x.RowLen(), x.AppendShape(nil))
	}
	part := x.Flat(1, 5)
	if part.NumDims() != 1 || !slices.Equal(part.AppendShape(nil), []int{4}) || part.RowLen() != 1 {
		t.Errorf("flat part is %v", part)
	}
	tensor.Slice[int32](part)[0] = 7
	if tensor.Slice[int32](x)[1] != 7 {
		t.Error("a flat part has memory of its own")
	}
	_, start, _ := x.Extent()
	if mem, lo, hi := part.Extent(); mem != nil || lo != start+4 || hi != start+20 {
		t.Errorf("extent [%d:%d) of a tensor at %d, want [4:20) from there", lo, hi, start)
	}
	var like tensor.Tensor
	if n := testing.AllocsPerRun(100, func() { like = x.Flat(0, 6).ShapedLike(x) }); n != 0 {
		t.Errorf("Flat and ShapedLike allocate %v times", n)
	}
	if !slices.Equal(like.Shape(), []int{2, 3}) || !like.SameMemory(x) {
		t.Errorf("shaped like %v it is %v", x, like)
	}
}

func TestFromBytes(t *testing.T) {
	b := tensor.New(tensor.Float64, 4).Bytes()
	x, err := tensor.FromBytes(tensor.Float32, b, 2, 4)
	if err != nil || x.Len() != 8 || &x.Bytes()[0] != &b[0] {
		t.Errorf("tensor is %v, %v", x, err)
	}
	for name, f := range map[string]func() error{
		"short":     func() error { _, err := tensor.FromBytes(tensor.Float32, b, 9); return err },
		"unaligned": func() error { _, err := tensor.FromBytes(tensor.Float32, b[1:5], 1); return err },
		"dtype":     func() error { _, err := tensor.FromBytes(99, b, 1); return err },
		"negative":  func() error { _, err := tensor.FromBytes(tensor.Uint8, b, -1); return err },
		"huge":      func() error { _, err := tensor.FromBytes(tensor.Uint8, b, 1<<30, 1<<30, 1<<30); return err },
	} {
		if f() == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := tensor.FromBytes(tensor.Complex64, tensor.New(tensor.Float32, 5).Bytes()[4:12], 1); err != nil {
		t.Errorf("complex64 needs the alignment of a float32 only: %v", err)
	}
}

// gpu is device memory in name only.
type gpu struct {
	bytes []byte
}

func (g *gpu) Device() tensor.Device               { return tensor.CUDA(1) }
func (g *gpu) NumBytes() int                       { return len(g.bytes) }
func (g *gpu) Address() uintptr                    { return 0xabc }
func (g *gpu) Export() ([]byte, error)             { return nil, errors.ErrUnsupported }
func (g *gpu) CopyToHost(dst []byte, at int) error { copy(dst, g.bytes[at:]); return nil }
func (g *gpu) CopyFromHost(at int, src []byte) error {
	copy(g.bytes[at:], src)
	return nil
}

// TestOnHost: a part of device memory is copied with its shape, and a host tensor is
// itself.
func TestOnHost(t *testing.T) {
	t.Parallel()
	mem := &gpu{bytes: []byte{0, 1, 2, 3, 4, 5, 6, 7}}
	x, err := tensor.OnDevice(mem, tensor.Uint8, 8)
	if err != nil {
		t.Fatal(err)
	}
	host, err := x.Slice(2, 5).OnHost()
	if err != nil || !slices.Equal(host.Bytes(), []byte{2, 3, 4}) || host.Device() != tensor.CPU() {
		t.Errorf("copy %v, %v, want 2, 3, 4 on the CPU", host, err)
	}
	if same, err := host.OnHost(); err != nil || !same.SameMemory(host) {
		t.Errorf("a host tensor gave %v, %v, want itself", same, err)
	}
}

func TestDeviceTensor(t *testing.T) {
	mem := &gpu{bytes: slices.Repeat([]byte{7}, 16)}
	x, err := tensor.OnDevice(mem, tensor.Float32, 4)
	if err != nil || x.Bytes() != nil || x.Device().String() != "cuda:1" || !strings.Contains(x.String(), "cuda:1") {
		t.Fatalf("tensor is %v, %v", x, err)
	}
	part := x.Slice(1, 3)
	if _, offset := part.Memory(); offset != 4 || part.NumBytes() != 8 {
		t.Errorf("part at %d, %d bytes; want 4, 8", offset, part.NumBytes())
	}
	if err := part.Zero(); err != nil || mem.bytes[3] != 7 || mem.bytes[4] != 0 || mem.bytes[11] != 0 || mem.bytes[12] != 7 {
		t.Errorf("zeroed part: %v, %v", mem.bytes, err)
	}
	if part.SameMemory(x) || !x.SameMemory(x) {
		t.Error("SameMemory of device tensors is wrong")
	}
	if _, err := tensor.OnDevice(mem, tensor.Float32, 5); err == nil {
		t.Error("a tensor larger than its memory was made")
	}
	if where, lo, hi := part.Extent(); where != mem || lo != 4 || hi != 12 {
		t.Errorf("extent %v, [%d:%d), want the memory, [4:12)", where, lo, hi)
	}
	flat := x.Flat(2, 4)
	if where, lo, hi := flat.Extent(); where != mem || lo != 8 || hi != 16 {
		t.Errorf("extent of a flat part %v, [%d:%d), want the memory, [8:16)", where, lo, hi)
	}
}

func TestPanicsLikeSlices(t *testing.T) {
	x := tensor.New(tensor.Float32, 3)
	strided, _ := x.AsStrided([]int{2}, []int{2})
	for name, f := range map[string]func(){
		"wrong type":    func() { tensor.Slice[float64](x) },
		"strided":       func() { tensor.Slice[float32](strided) },
		"out of bounds": func() { x.Slice(2, 4) },
		"backwards":     func() { x.Slice(2, 1) },
		"scalar":        func() { tensor.New(tensor.Float32).Slice(0, 1) },
		"flat beyond":   func() { x.Flat(1, 4) },
		"flat strided":  func() { strided.ShapedLike(tensor.New(tensor.Float32, 2)) },
		"other length":  func() { x.ShapedLike(tensor.New(tensor.Float32, 2)) },
		"bad shape":     func() { tensor.New(tensor.Float32, -1) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}
