package tensor

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// kernelBytes is what the kernels work in: they take multiples of it.
const kernelBytes = 128

// hasKernels tells whether this processor runs them.
func hasKernels() bool { return cpu.X86.HasAVX2 && cpu.X86.HasF16C }

// kernelCode says what combineAVX2 does: the operation, and the type. Sums and
// products of integers do not care for signs.
type kernelCode int

const (
	noKernel kernelCode = iota
	addFloat32
	addFloat64
	mulFloat32
	mulFloat64
	addInt8
	addInt16
	addInt32
	addInt64
	mulInt16
	mulInt32
	minInt8
	maxInt8
	minUint8
	maxUint8
	minInt16
	maxInt16
	minUint16
	maxUint16
	minInt32
	maxInt32
	minUint32
	maxUint32
	andBits
	orBits
	xorBits
	minFloat32
	maxFloat32
	minFloat64
	maxFloat64
	minInt64
	maxInt64
	minUint64
	maxUint64
)

// opKernels are the kernels of one type.
type opKernels struct{ sum, product, min, max kernelCode }

// codeFor is the kernel for op on T, or noKernel.
func codeFor[T integer | float32 | float64](op ReduceOp) kernelCode {
	var zero T
	var k opKernels
	switch any(zero).(type) {
	case float32:
		k = opKernels{addFloat32, mulFloat32, minFloat32, maxFloat32}
	case float64:
		k = opKernels{addFloat64, mulFloat64, minFloat64, maxFloat64}
	case int8:
		k = opKernels{addInt8, noKernel, minInt8, maxInt8}
	case uint8:
		k = opKernels{addInt8, noKernel, minUint8, maxUint8}
	case int16:
		k = opKernels{addInt16, mulInt16, minInt16, maxInt16}
	case uint16:
		k = opKernels{addInt16, mulInt16, minUint16, maxUint16}
	case int32:
		k = opKernels{addInt32, mulInt32, minInt32, maxInt32}
	case uint32:
		k = opKernels{addInt32, mulInt32, minUint32, maxUint32}
	case int64:
		k = opKernels{addInt64, noKernel, minInt64, maxInt64}
	case uint64:
		k = opKernels{addInt64, noKernel, minUint64, maxUint64}
	}
	return k.of(op)
}

func (k opKernels) of(op ReduceOp) kernelCode {
	switch op {
	case Sum, Avg:
		return k.sum
	case Product:
		return k.product
	case Min:
		return k.min
	case Max:
		return k.max
	case BAnd:
		return andBits
	case BOr:
		return orBits
	case BXor:
		return xorBits
	default:
		return noKernel
	}
}

// combineAVX2 is dst = a op b over n bytes; see the assembly.
//
//go:noescape
func combineAVX2(code kernelCode, dst, a, b unsafe.Pointer, n int)

// kernel computes dst = a op b with vector instructions, if there are any for
// this type and op. What is left over after whole blocks goes through the same
// instructions in blocks of its own, so that no result depends on where a piece
// ends, not even which of two NaNs it keeps.
func kernel[T integer | float32 | float64](op ReduceOp, dst, a, b []T) bool {
	if len(dst) == 0 || !hasKernels() {
		return len(dst) == 0
	}
	code := codeFor[T](op)
	if code == noKernel {
		return false
	}
	per := kernelBytes / sizeOf[T]()
	whole := len(dst) / per * per
	if whole > 0 {
		combineAVX2(code, unsafe.Pointer(&dst[0]), unsafe.Pointer(&a[0]), unsafe.Pointer(&b[0]), whole*sizeOf[T]())
	}
	if whole == len(dst) {
		return true
	}
	var x, y [kernelBytes / 8]uint64
	copy(unsafe.Slice((*T)(unsafe.Pointer(&x)), per), a[whole:])
	copy(unsafe.Slice((*T)(unsafe.Pointer(&y)), per), b[whole:])
	combineAVX2(code, unsafe.Pointer(&x), unsafe.Pointer(&x), unsafe.Pointer(&y), kernelBytes)
	copy(dst[whole:], unsafe.Slice((*T)(unsafe.Pointer(&x)), per))
	return true
}

// mulFloat32AVX2 is acc *= by.
//
//go:noescape
func mulFloat32AVX2(acc unsafe.Pointer, n int, by float32)

// divFloat32AVX2 is acc /= by.
//
//go:noescape
func divFloat32AVX2(acc unsafe.Pointer, n int, by float32)

// mulFloat64AVX2 is acc *= by.
//
//go:noescape
func mulFloat64AVX2(acc unsafe.Pointer, n int, by float64)

// divFloat64AVX2 is acc /= by.
//
//go:noescape
func divFloat64AVX2(acc unsafe.Pointer, n int, by float64)

// kernelScale computes the first elements of acc *= by, or of acc /= by, and
// returns how many.
func kernelScale[T integer | float32 | float64](acc []T, by T, divide bool) int {
	size := sizeOf[T]()
	n := len(acc) * size / kernelBytes * kernelBytes
	if n == 0 || !hasKernels() {
		return 0
	}
	a := unsafe.Pointer(&acc[0])
	switch by := any(by).(type) {
	case float32:
		if divide {
			divFloat32AVX2(a, n, by)
		} else {
			mulFloat32AVX2(a, n, by)
		}
	case float64:
		if divide {
			divFloat64AVX2(a, n, by)
		} else {
			mulFloat64AVX2(a, n, by)
		}
	default:
		return 0
	}
	return n / size
}

// addScaledFloat32AVX2 is acc += in*by, rounded twice.
//
//go:noescape
func addScaledFloat32AVX2(acc, in unsafe.Pointer, n int, by float32)

// addScaledFloat64AVX2 is acc += in*by, rounded twice.
//
//go:noescape
func addScaledFloat64AVX2(acc, in unsafe.Pointer, n int, by float64)

// kernelAddScaled computes acc += in*by, if it can; the rest goes through the
// same instructions, as in kernel.
func kernelAddScaled[T float32 | float64](acc, in []T, by T) bool {
	if len(acc) == 0 || !hasKernels() {
		return len(acc) == 0
	}
	per := kernelBytes / sizeOf[T]()
	whole := len(acc) / per * per
	if whole > 0 {
		addScaledAVX2(unsafe.Pointer(&acc[0]), unsafe.Pointer(&in[0]), whole*sizeOf[T](), by)
	}
	if whole < len(acc) {
		var x, y [kernelBytes / 8]uint64
		copy(unsafe.Slice((*T)(unsafe.Pointer(&x)), per), acc[whole:])
		copy(unsafe.Slice((*T)(unsafe.Pointer(&y)), per), in[whole:])
		addScaledAVX2(unsafe.Pointer(&x), unsafe.Pointer(&y), kernelBytes, by)
		copy(acc[whole:], unsafe.Slice((*T)(unsafe.Pointer(&x)), per))
	}
	return true
}

func addScaledAVX2[T float32 | float64](acc, in unsafe.Pointer, n int, by T) {
	switch by := any(by).(type) {
	case float32:
		addScaledFloat32AVX2(acc, in, n, by)
	case float64:
		addScaledFloat64AVX2(acc, in, n, by)
	}
}
