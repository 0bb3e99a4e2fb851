package pg

import (
	"fmt"
	"reflect"
)

// DType is the type of a tensor's elements.
type DType uint8

// The dtypes of torch's collectives. The numbers go over the wire: append only.
const (
	InvalidDType DType = iota
	Uint8DType
	Int8DType
	Int16DType
	Int32DType
	Int64DType
	Uint16DType
	Uint32DType
	Uint64DType
	BoolDType
	Float16DType
	BFloat16DType
	Float32DType
	Float64DType
	Complex64DType
	Complex128DType

	// Those of devices: see DeviceDTypes.
	Float8E4M3DType
	Float8E5M2DType
	dtypeCount
)

// dtypeTable holds name and element size, by DType. Names are torch's, and
// those of checkpoints and logs.
var dtypeTable = [dtypeCount]struct {
	name string
	size int
}{
	InvalidDType:    {"invalid", 0},
	Uint8DType:      {"uint8", 1},
	Int8DType:       {"int8", 1},
	Int16DType:      {"int16", 2},
	Int32DType:      {"int32", 4},
	Int64DType:      {"int64", 8},
	Uint16DType:     {"uint16", 2},
	Uint32DType:     {"uint32", 4},
	Uint64DType:     {"uint64", 8},
	BoolDType:       {"bool", 1},
	Float16DType:    {"float16", 2},
	BFloat16DType:   {"bfloat16", 2},
	Float32DType:    {"float32", 4},
	Float64DType:    {"float64", 8},
	Complex64DType:  {"complex64", 8},
	Complex128DType: {"complex128", 16},
	Float8E4M3DType: {"float8_e4m3fn", 1},
	Float8E5M2DType: {"float8_e5m2", 1},
}

// DTypes lists, in wire order, every dtype that all backends reduce as far as it
// can be: those of torch's collectives on the CPU.
func DTypes() []DType {
	return dtypesBetween(InvalidDType+1, Complex128DType)
}

// DeviceDTypes lists the dtypes for which only devices have arithmetic. Tensors of
// them are moved by every backend, and reduced on the host by none
// (errors.ErrUnsupported).
func DeviceDTypes() []DType { return dtypesBetween(Float8E4M3DType, dtypeCount-1) }

func dtypesBetween(first, last DType) []DType {
	all := make([]DType, 0, last-first+1)
	for d := first; d <= last; d++ {
		all = append(all, d)
	}
	return all
}

// ParseDType reads the name that String writes.
func ParseDType(name string) (DType, error) {
	for d := InvalidDType + 1; d < dtypeCount; d++ {
		if dtypeTable[d].name == name {
			return d, nil
		}
	}
	return InvalidDType, fmt.Errorf("pg: unknown dtype %q", name)
}

// Valid tells whether d is one of the dtypes above.
func (d DType) Valid() bool { return d > InvalidDType && d < dtypeCount }

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
func (d DType) IsFloat8() bool { return d == Float8E4M3DType || d == Float8E5M2DType }

// IsFloat tells whether d is a real floating-point type that the host has, too.
func (d DType) IsFloat() bool {
	return d == Float16DType || d == BFloat16DType || d == Float32DType || d == Float64DType
}

// IsComplex tells whether d is a complex type.
func (d DType) IsComplex() bool { return d == Complex64DType || d == Complex128DType }

// IsInteger tells whether d is an integer type; bool is none.
func (d DType) IsInteger() bool { return d >= Uint8DType && d <= Uint64DType }

// Element is the set of Go types that tensors can lie over. Named types with
// these kinds of memory are taken for the type they are made of, except
// Float16 and BFloat16, which are dtypes of their own.
type Element interface {
	~uint8 | ~int8 | ~int16 | ~int32 | ~int64 | ~uint16 | ~uint32 | ~uint64 |
		~bool | ~float32 | ~float64 | ~complex64 | ~complex128
}

// DTypeOf is the dtype of a Go element type.
func DTypeOf[T Element]() DType {
	var zero T
	switch any(zero).(type) {
	case float32:
		return Float32DType
	case Float16:
		return Float16DType
	case BFloat16:
		return BFloat16DType
	}
	switch reflect.TypeFor[T]().Kind() {
	case reflect.Uint8:
		return Uint8DType
	case reflect.Int8:
		return Int8DType
	case reflect.Int16:
		return Int16DType
	case reflect.Int32:
		return Int32DType
	case reflect.Int64:
		return Int64DType
	case reflect.Uint16:
		return Uint16DType
	case reflect.Uint32:
		return Uint32DType
	case reflect.Uint64:
		return Uint64DType
	case reflect.Bool:
		return BoolDType
	case reflect.Float32:
		return Float32DType
	case reflect.Float64:
		return Float64DType
	case reflect.Complex64:
		return Complex64DType
	case reflect.Complex128:
		return Complex128DType
	default:
		return InvalidDType // not reached: Element admits no other kind
	}
}
