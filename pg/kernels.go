package pg

import (
	"math"
	"unsafe"
)

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
	var zero T
	size := int(unsafe.Sizeof(zero))
	part := b[lo*size : hi*size]
	if s, ok := sliceOf[T](part); ok {
		return s
	}
	copy(bytesOf(scratch), part)
	return scratch[:hi-lo]
}

// put writes the accumulator to elements lo… of dst, which may be unaligned.
func put[T Element](dst []byte, lo int, acc []T) {
	var zero T
	copy(dst[lo*int(unsafe.Sizeof(zero)):], bytesOf(acc))
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

func foldFloat32(dst []byte, inputs [][]byte, f fold) {
	if f.op != PreMulSum {
		foldTiles[float32](dst, inputs, f.op, f.divisor)
		return
	}
	var accTile, scratch [tileElements]float32
	n := len(dst) / 4
	for lo := 0; lo < n; lo += tileElements {
		hi := min(lo+tileElements, n)
		acc := accTile[:hi-lo]
		copy(acc, tile(inputs[0], lo, hi, scratch[:]))
		f.startFloat32(acc)
		for _, in := range inputs[1:] {
			f.addFloat32(acc, tile(in, lo, hi, scratch[:]))
		}
		put(dst, lo, acc)
	}
}

// foldHalves accumulates in float32. H says which of the two formats raw is in.
func foldHalves(dst []byte, inputs [][]byte, f fold, h DType) {
	var accTile, wideTile [tileElements]float32
	var raw [tileElements]uint16
	n := len(dst) / 2
	for lo := 0; lo < n; lo += tileElements {
		hi := min(lo+tileElements, n)
		acc, wide := accTile[:hi-lo], wideTile[:hi-lo]
		widenHalves(h, acc, tile(inputs[0], lo, hi, raw[:]))
		f.startFloat32(acc)
		for _, in := range inputs[1:] {
			widenHalves(h, wide, tile(in, lo, hi, raw[:]))
			f.addFloat32(acc, wide)
		}
		f.finishFloat32(acc)
		roundHalves(h, raw[:hi-lo], acc)
		put(dst, lo, raw[:hi-lo])
	}
}

// widenHalves and roundHalves are the loops of Float32 and of NewFloat16 and
// NewBFloat16 with the common case written out, since a call per element would
// take most of the time.
func widenHalves(h DType, dst []float32, src []uint16) {
	dst = dst[:len(src)]
	if h == BFloat16DType {
		for i, v := range src {
			dst[i] = math.Float32frombits(uint32(v) << 16)
		}
		return
	}
	for i, v := range src {
		magnitude := uint32(v) & 0x7fff
		if magnitude-0x400 >= 0x7c00-0x400 { // subnormal, infinite or NaN
			dst[i] = Float16(v).Float32()
			continue
		}
		dst[i] = math.Float32frombits((magnitude<<13 + (127-15)<<23) | uint32(v)&0x8000<<16)
	}
}

func roundHalves(h DType, dst []uint16, src []float32) {
	dst = dst[:len(src)]
	if h == BFloat16DType {
		for i, v := range src {
			bits := math.Float32bits(v)
			if bits&^(1<<31) > f32Inf {
				dst[i] = uint16(NewBFloat16(v))
				continue
			}
			dst[i] = uint16((bits + 0x7fff + bits>>16&1) >> 16)
		}
		return
	}
	for i, v := range src {
		bits := math.Float32bits(v)
		magnitude := bits &^ (1 << 31)
		if magnitude-f32HalfNormal >= f32HalfOverflow-f32HalfNormal {
			dst[i] = uint16(NewFloat16(v))
			continue
		}
		magnitude += 0xfff + magnitude>>13&1 - (127-15)<<23
		dst[i] = uint16(magnitude>>13 | bits>>16&0x8000)
	}
}

func (f fold) startFloat32(acc []float32) {
	if f.op != PreMulSum {
		return
	}
	factor := float32(f.factor)
	for i := range acc {
		acc[i] *= factor
	}
}

func (f fold) addFloat32(acc, in []float32) {
	acc = acc[:len(in)]
	switch f.op {
	case PreMulSum:
		factor := float32(f.factor)
		for i, v := range in {
			// The conversion forbids a fused multiply-add, which would round
			// differently from one architecture to the next.
			acc[i] += float32(v * factor)
		}
	default:
		combine(f.op, acc, acc, in)
	}
}

func (f fold) finishFloat32(acc []float32) {
	if f.op != Avg || f.divisor == 1 {
		return
	}
	divide(acc, f.divisor)
}

func foldFloat64(dst []byte, inputs [][]byte, f fold) {
	if f.op != PreMulSum {
		foldTiles[float64](dst, inputs, f.op, f.divisor)
		return
	}
	var accTile, scratch [tileElements]float64
	n := len(dst) / 8
	for lo := 0; lo < n; lo += tileElements {
		hi := min(lo+tileElements, n)
		acc := accTile[:hi-lo]
		copy(acc, tile(inputs[0], lo, hi, scratch[:]))
		for i := range acc {
			acc[i] *= f.factor
		}
		for _, in := range inputs[1:] {
			for i, v := range tile(in, lo, hi, scratch[:]) {
				acc[i] += float64(v * f.factor)
			}
		}
		put(dst, lo, acc)
	}
}

// complexMath is what generic code cannot spell: the parts of a complex number.
type complexMath[T complex64 | complex128] struct {
	multiply func(a, b T) T
	divide   func(a T, by int) T
}

// Both divide part by part, since dividing by a complex number with a zero
// imaginary part would make NaNs of infinities; and both round each product,
// which forbids fused multiply-adds.
func math64() complexMath[complex64] {
	return complexMath[complex64]{
		multiply: func(a, b complex64) complex64 {
			re := float32(real(a)*real(b)) - float32(imag(a)*imag(b))
			im := float32(real(a)*imag(b)) + float32(imag(a)*real(b))
			return complex(re, im)
		},
		divide: func(a complex64, by int) complex64 {
			return complex(real(a)/float32(by), imag(a)/float32(by))
		},
	}
}

func math128() complexMath[complex128] {
	return complexMath[complex128]{
		multiply: func(a, b complex128) complex128 {
			re := float64(real(a)*real(b)) - float64(imag(a)*imag(b))
			im := float64(real(a)*imag(b)) + float64(imag(a)*real(b))
			return complex(re, im)
		},
		divide: func(a complex128, by int) complex128 {
			return complex(real(a)/float64(by), imag(a)/float64(by))
		},
	}
}

func foldComplex[T complex64 | complex128](dst []byte, inputs [][]byte, f fold, m complexMath[T]) {
	var accTile, scratch [tileElements]T
	var zero T
	n := len(dst) / int(unsafe.Sizeof(zero))
	for lo := 0; lo < n; lo += tileElements {
		hi := min(lo+tileElements, n)
		acc := accTile[:hi-lo]
		copy(acc, tile(inputs[0], lo, hi, scratch[:]))
		for _, in := range inputs[1:] {
			for i, v := range tile(in, lo, hi, scratch[:]) {
				if f.op == Product {
					acc[i] = m.multiply(acc[i], v)
				} else {
					acc[i] += v
				}
			}
		}
		if f.op == Avg {
			for i, v := range acc {
				acc[i] = m.divide(v, f.divisor)
			}
		}
		put(dst, lo, acc)
	}
}
