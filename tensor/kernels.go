package tensor

import "unsafe"

// A fold takes tileElements of every input in turn, so that the accumulator
// (at most 16 KiB) stays in the first-level cache whatever the number of ranks:
// memory is read once per input and written once. Kernels get the accumulator
// and one input of the same length.
const tileElements = 1024

// fold is the part of an op that kernels need.
type fold struct {
	op      ReduceOp
	divisor int
	factor  float64
}

type integer interface {
	uint8 | int8 | int16 | int32 | int64 | uint16 | uint32 | uint64
}

// tile gives elements [lo, hi) of b: in place if b is aligned for T, else
// copied to scratch.
func tile[T Element](b []byte, lo, hi int, scratch []T) []T {
	size := sizeOf[T]()
	part := b[lo*size : hi*size]
	if s, ok := sliceOf[T](part); ok {
		return s
	}
	copy(bytesOf(scratch), part)
	return scratch[:hi-lo]
}

// put writes the accumulator to elements lo… of dst, which may be unaligned.
func put[T Element](dst []byte, lo int, acc []T) {
	copy(dst[lo*sizeOf[T]():], bytesOf(acc))
}

func foldInts[T integer](dst []byte, inputs [][]byte, op ReduceOp) {
	if op != BAnd && op != BOr && op != BXor {
		foldTiles[T](dst, inputs, op, 1)
		return
	}
	var accTile, scratch [tileElements]T
	n := len(dst) / sizeOf[T]()
	for lo := 0; lo < n; lo += tileElements {
		hi := min(lo+tileElements, n)
		acc := accTile[:hi-lo]
		copy(acc, tile(inputs[0], lo, hi, scratch[:]))
		for _, in := range inputs[1:] {
			intKernel(op, acc, tile(in, lo, hi, scratch[:]))
		}
		put(dst, lo, acc)
	}
}

func sizeOf[T Element]() int {
	var zero T
	return int(unsafe.Sizeof(zero))
}

func intKernel[T integer](op ReduceOp, acc, in []T) {
	acc = acc[:len(in)] // drops the bounds checks below
	if kernel(op, acc, acc, in) {
		return
	}
	switch op {
	case BAnd:
		for i, v := range in {
			acc[i] &= v
		}
	case BOr:
		for i, v := range in {
			acc[i] |= v
		}
	case BXor:
		for i, v := range in {
			acc[i] ^= v
		}
	}
}

// foldBools normalises every byte first: memory that a peer filled may hold
// other values than 0 and 1.
func foldBools(dst []byte, inputs [][]byte, op ReduceOp) {
	switch op {
	case Min:
		op = BAnd
	case Max:
		op = BOr
	}
	var accTile, clean [tileElements]uint8
	for lo := 0; lo < len(dst); lo += tileElements {
		hi := min(lo+tileElements, len(dst))
		acc := accTile[:hi-lo]
		normalise(acc, inputs[0][lo:hi])
		for _, in := range inputs[1:] {
			normalise(clean[:hi-lo], in[lo:hi])
			intKernel(op, acc, clean[:hi-lo])
		}
		copy(dst[lo:hi], acc)
	}
}

func normalise(dst, src []uint8) {
	dst = dst[:len(src)]
	for i, v := range src {
		dst[i] = uint8((uint16(v) + 0xff) >> 8) // 0 for 0, else 1, without a branch
	}
}

func foldFloats[T float32 | float64](dst []byte, inputs [][]byte, f fold) {
	if f.op != PreMulSum {
		foldTiles[T](dst, inputs, f.op, f.divisor)
		return
	}
	var accTile, scratch [tileElements]T
	n := len(dst) / sizeOf[T]()
	for lo := 0; lo < n; lo += tileElements {
		hi := min(lo+tileElements, n)
		acc := accTile[:hi-lo]
		copy(acc, tile(inputs[0], lo, hi, scratch[:]))
		scale(acc, T(f.factor))
		for _, in := range inputs[1:] {
			addScaled(acc, tile(in, lo, hi, scratch[:]), T(f.factor))
		}
		put(dst, lo, acc)
	}
}

// Sums and means of complex numbers are those of their parts; so a mean divides
// part by part, since dividing by a complex number with a zero imaginary part
// would make NaNs of infinities.
func foldComplex[C complex64 | complex128, F float32 | float64](dst []byte, inputs [][]byte, f fold, multiply func(a, b C) C) {
	if f.op != Product {
		foldTiles[F](dst, inputs, f.op, f.divisor)
		return
	}
	var accTile, scratch [tileElements]C
	n := len(dst) / sizeOf[C]()
	for lo := 0; lo < n; lo += tileElements {
		hi := min(lo+tileElements, n)
		acc := accTile[:hi-lo]
		copy(acc, tile(inputs[0], lo, hi, scratch[:]))
		for _, in := range inputs[1:] {
			for i, v := range tile(in, lo, hi, scratch[:]) {
				acc[i] = multiply(acc[i], v)
			}
		}
		put(dst, lo, acc)
	}
}

// Both round each product, which forbids fused multiply-adds.
func multiply64(a, b complex64) complex64 {
	re := float32(real(a)*real(b)) - float32(imag(a)*imag(b))
	im := float32(real(a)*imag(b)) + float32(imag(a)*real(b))
	return complex(re, im)
}

func multiply128(a, b complex128) complex128 {
	re := float64(real(a)*real(b)) - float64(imag(a)*imag(b))
	im := float64(real(a)*imag(b)) + float64(imag(a)*real(b))
	return complex(re, im)
}
