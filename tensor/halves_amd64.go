package tensor

import "unsafe"

// halfElements is what the kernels for 16-bit floats work in.
const halfElements = 32

// widenHalvesAVX2 is dst = src, from float16 to float32.
//
//go:noescape
func widenHalvesAVX2(dst, src unsafe.Pointer, n int)

// widenBrainsAVX2 is dst = src, from bfloat16 to float32.
//
//go:noescape
func widenBrainsAVX2(dst, src unsafe.Pointer, n int)

// addHalvesAVX2 is dst += src, float16 to float32.
//
//go:noescape
func addHalvesAVX2(dst, src unsafe.Pointer, n int)

// addBrainsAVX2 is dst += src, bfloat16 to float32.
//
//go:noescape
func addBrainsAVX2(dst, src unsafe.Pointer, n int)

// roundHalvesAVX2 is dst = src, from float32 to float16.
//
//go:noescape
func roundHalvesAVX2(dst, src unsafe.Pointer, n int)

// roundBrainsAVX2 is dst = src, from float32 to bfloat16.
//
//go:noescape
func roundBrainsAVX2(dst, src unsafe.Pointer, n int)

// wholeHalves is how many of n elements the kernels do.
func wholeHalves(n int) int {
	if !hasKernels() {
		return 0
	}
	return n / halfElements * halfElements
}

// kernelWiden widens the first elements of src and returns how many.
func kernelWiden(h DType, dst []float32, src []uint16) int {
	n := wholeHalves(len(src))
	switch {
	case n == 0:
	case h == BFloat16:
		widenBrainsAVX2(unsafe.Pointer(&dst[0]), unsafe.Pointer(&src[0]), n)
	default:
		widenHalvesAVX2(unsafe.Pointer(&dst[0]), unsafe.Pointer(&src[0]), n)
	}
	return n
}

// kernelAddWide adds the first elements of src to acc and returns how many.
func kernelAddWide(h DType, acc []float32, src []uint16) int {
	n := wholeHalves(len(src))
	switch {
	case n == 0:
	case h == BFloat16:
		addBrainsAVX2(unsafe.Pointer(&acc[0]), unsafe.Pointer(&src[0]), n)
	default:
		addHalvesAVX2(unsafe.Pointer(&acc[0]), unsafe.Pointer(&src[0]), n)
	}
	return n
}

// kernelRound rounds the first elements of src and returns how many.
func kernelRound(h DType, dst []uint16, src []float32) int {
	n := wholeHalves(len(src))
	switch {
	case n == 0:
	case h == BFloat16:
		roundBrainsAVX2(unsafe.Pointer(&dst[0]), unsafe.Pointer(&src[0]), n)
	default:
		roundHalvesAVX2(unsafe.Pointer(&dst[0]), unsafe.Pointer(&src[0]), n)
	}
	return n
}
