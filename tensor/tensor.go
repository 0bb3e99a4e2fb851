package tensor

import (
	"fmt"
	"math"
	"slices"
	"unsafe"
)

// Tensor is a view of memory that the caller owns: a dtype, a shape, strides
// and a device. It is a value: copying it copies the view, not the elements.
// The zero Tensor has no dtype and stands for "none". A tensor over a Go slice
// costs no allocation and keeps the slice's memory alive.
//
// A Tensor is immutable; what it points at is not, and belongs to the backend
// while an op is under way.
type Tensor struct {
	data []byte       // host memory from the first element to the end of the last
	mem  DeviceMemory // set instead of data for device tensors
	off  int          // first element's offset in mem, in bytes

	count int // number of elements
	dtype DType

	// shape and strides (in elements) are nil for the 1-D contiguous case,
	// which is what gradients are.
	shape, strides []int
}

// Of makes a 1-D tensor over s, without a copy.
func Of[T Element](s []T) Tensor {
	return Tensor{data: bytesOf(s), count: len(s), dtype: DTypeOf[T]()}
}

// Slice gives a contiguous host tensor's elements as a Go slice over the same
// memory. It panics if T is not the tensor's dtype or the tensor has no flat
// host memory, as a wrong type assertion does.
func Slice[T Element](t Tensor) []T {
	if want := DTypeOf[T](); want != t.dtype {
		panic(fmt.Sprintf("tensor: Slice of a %v tensor as %v", t.dtype, want))
	}
	if t.mem != nil || !t.Contiguous() {
		panic(fmt.Sprintf("tensor: Slice of %v, want contiguous host memory", t))
	}
	s, ok := sliceOf[T](t.data)
	if !ok {
		panic(fmt.Sprintf("tensor: Slice of %v over memory that is not aligned for it", t))
	}
	return s
}

// New allocates a zeroed, contiguous host tensor. No dimensions make a scalar.
// It panics for an invalid dtype or shape, as make does.
func New(dtype DType, shape ...int) Tensor {
	count, err := Elements(dtype, shape)
	if err != nil {
		panic(err.Error())
	}
	// Words, not bytes, so that every dtype is aligned.
	n := count * dtype.Size()
	words := make([]complex128, (n+15)/16)
	t := Tensor{data: bytesOf(words)[:n:n], count: count, dtype: dtype}
	return t.shaped(shape)
}

// FromBytes makes a contiguous tensor over b, without a copy. It fails if b is
// not exactly as long as dtype and shape say, or is not aligned for dtype.
func FromBytes(dtype DType, b []byte, shape ...int) (Tensor, error) {
	count, err := Elements(dtype, shape)
	if err != nil {
		return Tensor{}, err
	}
	if want := count * dtype.Size(); len(b) != want {
		return Tensor{}, fmt.Errorf("tensor: %d bytes for %v %v, want %d", len(b), dtype, shape, want)
	}
	if !aligned(b, dtype) {
		return Tensor{}, fmt.Errorf("tensor: bytes at %p are not aligned for %v", unsafe.SliceData(b), dtype)
	}
	t := Tensor{data: b, count: count, dtype: dtype}
	return t.shaped(shape), nil
}

// OnDevice makes a contiguous tensor over device memory, without a copy.
func OnDevice(m DeviceMemory, dtype DType, shape ...int) (Tensor, error) {
	count, err := Elements(dtype, shape)
	if err != nil {
		return Tensor{}, err
	}
	if want := count * dtype.Size(); m.NumBytes() < want {
		return Tensor{}, fmt.Errorf("tensor: %d bytes of device memory for %v %v, want %d",
			m.NumBytes(), dtype, shape, want)
	}
	t := Tensor{mem: m, count: count, dtype: dtype}
	return t.shaped(shape), nil
}

// DType is the type of the elements.
func (t Tensor) DType() DType { return t.dtype }

// Len is the number of elements.
func (t Tensor) Len() int { return t.count }

// NumBytes is Len times the element size.
func (t Tensor) NumBytes() int { return t.count * t.dtype.Size() }

// IsNone tells whether t is the zero Tensor.
func (t Tensor) IsNone() bool { return t.dtype == Invalid }

// Bytes is the memory of a contiguous host tensor, else nil. Writing to it
// writes to the tensor.
func (t Tensor) Bytes() []byte {
	if t.mem != nil || !t.Contiguous() {
		return nil
	}
	return t.data
}

// Memory is the device memory of a device tensor and the byte offset of the
// first element in it, or nil.
func (t Tensor) Memory() (m DeviceMemory, offset int) { return t.mem, t.off }

// Device is where the elements lie.
func (t Tensor) Device() Device {
	if t.mem != nil {
		return t.mem.Device()
	}
	return CPU()
}

// Shape is a copy of the dimensions; empty for a scalar.
func (t Tensor) Shape() []int {
	if t.shape == nil {
		return []int{t.count}
	}
	return slices.Clone(t.shape)
}

// NumDims is the number of dimensions; 0 for a scalar.
func (t Tensor) NumDims() int {
	if t.shape == nil {
		return 1
	}
	return len(t.shape)
}

// AppendShape appends the dimensions to b.
func (t Tensor) AppendShape(b []int) []int {
	if t.shape == nil {
		return append(b, t.count)
	}
	return append(b, t.shape...)
}

// Strides is a copy of the distances between neighbours, in elements.
func (t Tensor) Strides() []int {
	if t.strides == nil {
		return rowMajor(t.Shape())
	}
	return slices.Clone(t.strides)
}

// Contiguous tells whether the elements lie one after the other in row-major
// order. Backends take only such tensors.
func (t Tensor) Contiguous() bool {
	if t.strides == nil || t.count == 0 {
		return true
	}
	want := 1
	for i := len(t.shape) - 1; i >= 0; i-- {
		if t.shape[i] != 1 && t.strides[i] != want {
			return false
		}
		want *= t.shape[i]
	}
	return true
}

// Slice is the part [lo, hi) of the first dimension, over the same memory. It
// panics when the bounds are out of range, as slicing does.
func (t Tensor) Slice(lo, hi int) Tensor {
	if t.NumDims() == 0 {
		panic("tensor: Slice of a scalar tensor")
	}
	rows, stride := t.Rows(), 1
	if lo < 0 || hi < lo || hi > rows {
		panic(fmt.Sprintf("tensor: Slice [%d:%d) of %d rows", lo, hi, rows))
	}
	s := t
	s.count = (hi - lo) * t.RowLen()
	if t.shape != nil {
		stride = t.strides[0]
		s.shape = slices.Clone(t.shape)
		s.shape[0] = hi - lo
	}
	first := min(lo*stride, t.extent()) * t.dtype.Size()
	last := first + s.extent()*t.dtype.Size()
	if t.mem != nil {
		s.off += first
	} else {
		s.data = t.data[first:last:last]
	}
	return s
}

// Rows is the first dimension; 1 for a scalar.
func (t *Tensor) Rows() int {
	if len(t.shape) == 0 {
		return t.count
	}
	return t.shape[0]
}

// RowLen is the number of elements of a row.
func (t *Tensor) RowLen() int {
	if rows := t.Rows(); rows > 0 {
		return t.count / rows
	}
	return 0
}

// Flat is elements [lo, hi) of a contiguous tensor as a 1-D one over the same
// memory. It allocates nothing, and panics as Slice does.
func (t *Tensor) Flat(lo, hi int) Tensor {
	if lo < 0 || hi < lo || hi > t.count {
		panic(fmt.Sprintf("tensor: Flat [%d:%d) of %d elements", lo, hi, t.count))
	}
	size := t.dtype.Size()
	p := Tensor{dtype: t.dtype, count: hi - lo}
	if t.mem != nil {
		p.mem, p.off = t.mem, t.off+lo*size
		return p
	}
	p.data = t.data[lo*size : hi*size : hi*size]
	return p
}

// Reshape is the same memory under another shape of the same size; one
// dimension may be -1 and is computed. Only contiguous tensors can be reshaped.
func (t Tensor) Reshape(shape ...int) (Tensor, error) {
	if !t.Contiguous() {
		return Tensor{}, fmt.Errorf("tensor: reshape of non-contiguous %v", t)
	}
	shape = slices.Clone(shape)
	if i := slices.Index(shape, -1); i >= 0 {
		shape[i] = 1
		rest, err := Elements(t.dtype, shape)
		if err != nil {
			return Tensor{}, err
		}
		if rest == 0 || t.count%rest != 0 {
			return Tensor{}, fmt.Errorf("tensor: reshape of %d elements: %v does not divide them", t.count, shape)
		}
		shape[i] = t.count / rest
	}
	count, err := Elements(t.dtype, shape)
	if err != nil {
		return Tensor{}, err
	}
	if count != t.count {
		return Tensor{}, fmt.Errorf("tensor: reshape of %d elements to %v, which has %d", t.count, shape, count)
	}
	t.shape, t.strides = nil, nil
	return t.shaped(shape), nil
}

// ShapedLike is Reshape to the shape of u, which shares it and so allocates
// nothing. It panics unless both are contiguous and of one Len.
func (t Tensor) ShapedLike(u Tensor) Tensor {
	if t.count != u.count || !t.Contiguous() || !u.Contiguous() {
		panic(fmt.Sprintf("tensor: ShapedLike of %v and %v", t, u))
	}
	t.shape, t.strides = u.shape, u.strides
	return t
}

// AsStrided views the memory of a contiguous tensor under any shape and
// strides (in elements, not negative) that stay inside it. The result can be
// refused by collectives, which want contiguous tensors.
func (t Tensor) AsStrided(shape, strides []int) (Tensor, error) {
	count, err := Elements(t.dtype, shape)
	if err != nil {
		return Tensor{}, err
	}
	if len(strides) != len(shape) {
		return Tensor{}, fmt.Errorf("tensor: %d strides for %d dimensions", len(strides), len(shape))
	}
	if !t.Contiguous() {
		return Tensor{}, fmt.Errorf("tensor: strided view of non-contiguous %v", t)
	}
	if slices.ContainsFunc(strides, func(s int) bool { return s < 0 || s > math.MaxInt32 }) {
		return Tensor{}, fmt.Errorf("tensor: strides %v, want 0 to %d each", strides, math.MaxInt32)
	}
	s := t
	s.count = count
	s.shape, s.strides = append([]int{}, shape...), append([]int{}, strides...)
	if s.extent() > t.count {
		return Tensor{}, fmt.Errorf("tensor: strides %v of %v reach %d elements, tensor has %d",
			strides, shape, s.extent(), t.count)
	}
	if t.mem == nil {
		n := s.extent() * t.dtype.Size()
		s.data = t.data[:n:n]
	}
	return s, nil
}

// Zero writes zeros over a contiguous tensor. It fails only for device memory.
func (t Tensor) Zero() error {
	if t.mem == nil {
		clear(t.Bytes())
		return nil
	}
	zeros := make([]byte, min(t.NumBytes(), zeroChunkBytes))
	for done := 0; done < t.NumBytes(); done += len(zeros) {
		n := min(len(zeros), t.NumBytes()-done)
		if err := t.mem.CopyFromHost(t.off+done, zeros[:n]); err != nil {
			return fmt.Errorf("zero %v: %w", t, err)
		}
	}
	return nil
}

// zeroChunkBytes is how much of device memory is zeroed at a time.
const zeroChunkBytes = 1 << 20

// Extent is where the elements lie, from the first to the end of the last: at
// addresses, or, if mem is not nil, at byte offsets in mem.
func (t *Tensor) Extent() (mem DeviceMemory, lo, hi uintptr) {
	if t.mem != nil {
		return t.mem, uintptr(t.off), uintptr(t.off + t.extent()*t.dtype.Size())
	}
	lo = uintptr(unsafe.Pointer(unsafe.SliceData(t.data)))
	return nil, lo, lo + uintptr(len(t.data))
}

// SameMemory tells whether t and u are the very same elements.
func (t Tensor) SameMemory(u Tensor) bool {
	if t.mem != nil || u.mem != nil {
		return t.mem == u.mem && t.off == u.off && t.NumBytes() == u.NumBytes()
	}
	return len(t.data) == len(u.data) && unsafe.SliceData(t.data) == unsafe.SliceData(u.data)
}

// String describes the tensor without its elements: "float32[2 3]".
func (t Tensor) String() string {
	s := fmt.Sprintf("%v%v", t.dtype, t.Shape())
	if !t.Contiguous() {
		s += fmt.Sprintf(" strides %v", t.strides)
	}
	if t.mem != nil {
		s += " on " + t.Device().String()
	}
	return s
}

// shaped sets a shape that is not simply 1-D.
func (t Tensor) shaped(shape []int) Tensor {
	if len(shape) != 1 {
		t.shape = append([]int{}, shape...) // not nil, even for a scalar
		t.strides = rowMajor(shape)
	}
	return t
}

// extent is how many elements of memory the view reaches over.
func (t *Tensor) extent() int {
	if t.strides == nil || t.count == 0 {
		return t.count
	}
	last := 0
	for i, n := range t.shape {
		last += (n - 1) * t.strides[i]
	}
	return last + 1
}

func rowMajor(shape []int) []int {
	strides := make([]int, len(shape))
	next := 1
	for i := len(shape) - 1; i >= 0; i-- {
		strides[i] = next
		next *= max(shape[i], 1)
	}
	return strides
}

// Elements is how many elements a tensor of dtype and shape has. It fails for an
// invalid dtype, a negative dimension, and beyond MaxElements, which keeps byte
// counts far from overflow.
func Elements(dtype DType, shape []int) (int, error) {
	if !dtype.Valid() {
		return 0, fmt.Errorf("tensor: %v tensor, want a valid dtype", dtype)
	}
	n := 1
	for _, d := range shape {
		if d < 0 {
			return 0, fmt.Errorf("tensor: shape %v has a negative dimension", shape)
		}
		if d > 0 && n > MaxElements/d {
			return 0, fmt.Errorf("tensor: shape %v has more than %d elements", shape, MaxElements)
		}
		n *= d
	}
	return n, nil
}

// MaxElements bounds the elements of a tensor: 2^48 elements of 16 bytes still fit an int.
const MaxElements = 1 << 48

func bytesOf[T Element](s []T) []byte {
	if len(s) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*sizeOf[T]())
}

// sliceOf views b as elements; ok is false if b is not aligned for T.
func sliceOf[T Element](b []byte) (s []T, ok bool) {
	if len(b) == 0 {
		return nil, true
	}
	var zero T
	p := unsafe.Pointer(unsafe.SliceData(b))
	if uintptr(p)%unsafe.Alignof(zero) != 0 {
		return nil, false
	}
	return unsafe.Slice((*T)(p), len(b)/int(unsafe.Sizeof(zero))), true
}

func aligned(b []byte, dtype DType) bool {
	size := dtype.Size()
	if dtype.IsComplex() {
		size /= 2 // a complex number is aligned as its parts are
	}
	return len(b) == 0 || uintptr(unsafe.Pointer(unsafe.SliceData(b)))%uintptr(size) == 0
}
