package tensor

import "math"

// F16 is an IEEE 754 half: 1 sign, 5 exponent and 10 fraction bits. It is
// a format for memory and wire; arithmetic converts to float32.
type F16 uint16

// BF16 is the upper half of a float32: 1 sign, 8 exponent and 7 fraction
// bits.
type BF16 uint16

// Bit patterns of float32 that bound the ranges of F16.
const (
	f32Inf = 0xff << 23
	// From half way between the largest half (65504) and 2^16 on, values round
	// to infinity; the tie itself does too, since 2^16 would be even.
	f32HalfOverflow = 0x477ff000
	f32HalfNormal   = (127 - 14) << 23 // 2^-14, the smallest normal half
	// Adding this power of two to a value below 2^-14 makes float32 addition
	// round it to a multiple of 2^-24, half's smallest step: to nearest even,
	// and right for subnormals.
	f32HalfMagic = (127 - 15 + 23 - 10 + 1) << 23
)

// NewF16 rounds f to the nearest half, ties to even. Too large becomes
// infinite, NaN stays NaN (quiet, upper payload bits kept).
func NewF16(f float32) F16 {
	bits := math.Float32bits(f)
	sign := F16(bits>>16) & 0x8000
	bits &^= 1 << 31
	switch {
	case bits > f32Inf:
		return sign | 0x7e00 | F16(bits>>13)&0x3ff
	case bits >= f32HalfOverflow:
		return sign | 0x7c00
	case bits < f32HalfNormal:
		magic := math.Float32frombits(f32HalfMagic)
		sum := math.Float32frombits(bits) + magic
		return sign | F16(math.Float32bits(sum)-f32HalfMagic)
	}
	odd := bits >> 13 & 1
	bits += 0xfff + odd      // rounds to nearest even; a carry moves the exponent, as it should
	bits -= (127 - 15) << 23 // rebias
	return sign | F16(bits>>13)
}

// Float32 is the exact value of h.
func (h F16) Float32() float32 {
	sign := uint32(h&0x8000) << 16
	exp, frac := uint32(h>>10)&0x1f, uint32(h)&0x3ff
	switch exp {
	case 0:
		f := float32(frac) * 0x1p-24 // exact: at most 10 bits
		return math.Float32frombits(math.Float32bits(f) | sign)
	case 0x1f:
		return math.Float32frombits(sign | f32Inf | frac<<13)
	}
	return math.Float32frombits(sign | (exp+127-15)<<23 | frac<<13)
}

// NewBF16 rounds f to the nearest bfloat16, ties to even; NaN stays NaN.
func NewBF16(f float32) BF16 {
	bits := math.Float32bits(f)
	if bits&^(1<<31) > f32Inf {
		return BF16(bits>>16) | 0x40
	}
	odd := bits >> 16 & 1
	return BF16((bits + 0x7fff + odd) >> 16)
}

// Float32 is the exact value of b.
func (b BF16) Float32() float32 { return math.Float32frombits(uint32(b) << 16) }
