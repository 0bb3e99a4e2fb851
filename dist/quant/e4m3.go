package quant

import "math"

// The numbers of an eight-bit float with 4 exponent and 3 fraction bits, without
// infinities, as torch.float8_e4m3fn and OCP's E4M3 have it: exponents have the bias 7,
// and all bits set, but for the sign, is NaN.
const (
	e4m3Most     = 448
	e4m3Normal   = 0x1p-6 // the smallest normal number
	e4m3Step     = 0x1p-9 // between the numbers below it
	e4m3MostCode = 0x7e
	e4m3NaNCode  = 0x7f
	e4m3Sign     = 0x80
)

// e4m3Value is the number of a code.
func e4m3Value(code byte) float32 {
	negative, exponent, fraction := code&e4m3Sign != 0, uint32(code>>3&0xf), uint32(code&7)
	var v float32
	switch {
	case code&^e4m3Sign == e4m3NaNCode:
		return notANumber()
	case exponent == 0:
		v = float32(fraction) * e4m3Step
	default:
		v = math.Float32frombits((exponent-7+127)<<23 | fraction<<20)
	}
	if negative {
		return -v
	}
	return v
}

// e4m3Code is the code of the nearest number, ties to even. What is larger than
// e4m3Most becomes that. V is no NaN.
func e4m3Code(v float32) byte {
	bits := math.Float32bits(v)
	sign, bits := byte(bits>>24)&e4m3Sign, bits&^(1<<31)
	if v = math.Float32frombits(bits); v < e4m3Normal {
		return sign | int8Code(v/e4m3Step) // 8 is the smallest normal
	}
	const dropped = 23 - 3
	bits += 1<<(dropped-1) - 1 + bits>>dropped&1 // to even; a carry goes into the exponent
	code := bits>>dropped - (127-7)<<3
	return sign | byte(min(code, e4m3MostCode))
}
