package tensor

import (
	"fmt"
	"reflect"
)

// DType is the type of a tensor's elements.
type DType uint8

// The dtypes of torch's collectives. The numbers go over the wire: append only.
const (
	Invalid DType = iota
	Uint8
	Int8
	Int16
	Int32
	Int64
	Uint16
	Uint32
	Uint64
	Bool
	Float16
	BFloat16
	Float32
	Float64
	Complex64
	Complex128

	// Those of devices: see DeviceDTypes.
	Float8E4M3
	Float8E5M2
	dtypeCount
)

// dtypeTable holds name and element size, by DType. Names are torch's, and
// those of checkpoints and logs.
var dtypeTable = [dtypeCount]struct {
	name string
	size int
}{
	Invalid:    {"invalid", 0},
	Uint8:      {"uint8", 1},
	Int8:       {"int8", 1},
	Int16:      {"int16", 2},
	Int32:      {"int32", 4},
	Int64:      {"int64", 8},
	Uint16:     {"uint16", 2},
	Uint32:     {"uint32", 4},
	Uint64:     {"uint64", 8},
	Bool:       {"bool", 1},
	Float16:    {"float16", 2},
	BFloat16:   {"bfloat16", 2},
	Float32:    {"float32", 4},
	Float64:    {"float64", 8},
	Complex64:  {"complex64", 8},
	Complex128: {"complex128", 16},
	Float8E4M3: {"float8_e4m3fn", 1},
	Float8E5M2: {"float8_e5m2", 1},
}

// DTypes lists, in wire order, every dtype that all backends reduce as far as it
// can be: those of torch's collectives on the CPU.
func DTypes() []DType {
	return dtypesBetween(Invalid+1, Complex128)
}

// DeviceDTypes lists the dtypes for which only devices have arithmetic. Tensors of
// them are moved by every backend, and reduced on the host by none
// (errors.ErrUnsupported).
func DeviceDTypes() []DType { return dtypesBetween(Float8E4M3, dtypeCount-1) }

func dtypesBetween(first, last DType) []DType {
	all := make([]DType, 0, last-first+1)
	for d := first; d <= last; d++ {
		all = append(all, d)
	}
	return all
}

// ParseDType reads the name that String writes.
func ParseDType(name string) (DType, error) {
	for d := Invalid + 1; d < dtypeCount; d++ {
		if dtypeTable[d].name == name {
			return d, nil
		}
	}
	return Invalid, fmt.Errorf("tensor: unknown dtype %q", name)
}

// Valid tells whether d is one of the dtypes above.
func (d DType) Valid() bool { return d > Invalid && d < dtypeCount }

// Size is the size of one element in bytes, 0 for an invalid dtype.
func (d DType) Size() int {
	if !d.Valid() {
		return 0
	}
	return dtypeTable[d].size
}

// String is torch's name of the dtype: "float32".
func (d DType) String() string {
	if d >= dtypeCount {
		return fmt.Sprintf("dtype(%d)", uint8(d))
	}
	return dtypeTable[d].name
}

// IsFloat8 tells whether d is a floating-point type of eight bits.
func (d DType) IsFloat8() bool { return d == Float8E4M3 || d == Float8E5M2 }

// IsFloat tells whether d is a real floating-point type that the host has, too.
func (d DType) IsFloat() bool {
	return d == Float16 || d == BFloat16 || d == Float32 || d == Float64
}

// IsComplex tells whether d is a complex type.
func (d DType) IsComplex() bool { return d == Complex64 || d == Complex128 }

// IsInteger tells whether d is an integer type; bool is none.
func (d DType) IsInteger() bool { return d >= Uint8 && d <= Uint64 }

// Element is the set of Go types that tensors can lie over. Named types with
// these kinds of memory are taken for the type they are made of, except
// F16 and BF16, which are dtypes of their own.
type Element interface {
	~uint8 | ~int8 | ~int16 | ~int32 | ~int64 | ~uint16 | ~uint32 | ~uint64 |
		~bool | ~float32 | ~float64 | ~complex64 | ~complex128
}

// DTypeOf is the dtype of a Go element type.
func DTypeOf[T Element]() DType {
	var zero T
	switch any(zero).(type) {
	case float32:
		return Float32
	case F16:
		return Float16
	case BF16:
		return BFloat16
	}
	return kindDTypes[reflect.TypeFor[T]().Kind()] // Element admits no other kind
}

// kindDTypes are the dtypes of the kinds that Element admits.
var kindDTypes = [...]DType{
	reflect.Uint8:      Uint8,
	reflect.Int8:       Int8,
	reflect.Int16:      Int16,
	reflect.Int32:      Int32,
	reflect.Int64:      Int64,
	reflect.Uint16:     Uint16,
	reflect.Uint32:     Uint32,
	reflect.Uint64:     Uint64,
	reflect.Bool:       Bool,
	reflect.Float32:    Float32,
	reflect.Float64:    Float64,
	reflect.Complex64:  Complex64,
	reflect.Complex128: Complex128,
}
