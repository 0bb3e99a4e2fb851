package pg

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// kernelBytes is what the kernels work in: they take multiples of it.
const kernelBytes = 128

// hasKernels tells whether this processor runs them.
func hasKernels() bool { return cpu.X86.HasAVX2 }

// addFloat32AVX2 is dst = a op b for float32 sums; see the assembly.
//
//go:noescape
func addFloat32AVX2(dst, a, b unsafe.Pointer, n int)

// addFloat64AVX2 is dst = a op b for float64 sums; see the assembly.
//
//go:noescape
func addFloat64AVX2(dst, a, b unsafe.Pointer, n int)

// addInt32AVX2 is dst = a op b for 32-bit integer sums; see the assembly.
//
//go:noescape
func addInt32AVX2(dst, a, b unsafe.Pointer, n int)

// addInt64AVX2 is dst = a op b for 64-bit integer sums; see the assembly.
//
//go:noescape
func addInt64AVX2(dst, a, b unsafe.Pointer, n int)

// minInt32AVX2 is dst = a op b for int32 minima; see the assembly.
//
//go:noescape
func minInt32AVX2(dst, a, b unsafe.Pointer, n int)

// maxInt32AVX2 is dst = a op b for int32 maxima; see the assembly.
//
//go:noescape
func maxInt32AVX2(dst, a, b unsafe.Pointer, n int)

// kernel computes the first elements of dst = a op b with vector instructions,
// if there are any for this type, and returns how many it did.
func kernel[T integer | float32 | float64](op ReduceOp, dst, a, b []T) int {
	var zero T
	size := int(unsafe.Sizeof(zero))
	n := len(dst) * size / kernelBytes * kernelBytes
	if n == 0 || !hasKernels() {
		return 0
	}
	d, x, y := unsafe.Pointer(&dst[0]), unsafe.Pointer(&a[0]), unsafe.Pointer(&b[0])
	switch any(zero).(type) {
	case float32:
		if op != Sum && op != Avg {
			return 0
		}
		addFloat32AVX2(d, x, y, n)
	case float64:
		if op != Sum && op != Avg {
			return 0
		}
		addFloat64AVX2(d, x, y, n)
	case int32:
		return kernelInt32(op, d, x, y, n) / size
	case uint32:
		if op != Sum {
			return 0
		}
		addInt32AVX2(d, x, y, n)
	case int64, uint64:
		if op != Sum {
			return 0
		}
		addInt64AVX2(d, x, y, n)
	default:
		return 0
	}
	return n / size
}

func kernelInt32(op ReduceOp, d, x, y unsafe.Pointer, n int) int {
	switch op {
	case Sum:
		addInt32AVX2(d, x, y, n)
	case Min:
		minInt32AVX2(d, x, y, n)
	case Max:
		maxInt32AVX2(d, x, y, n)
	default:
		return 0
	}
	return n
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
