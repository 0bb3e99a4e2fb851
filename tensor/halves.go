package tensor

import "math"

// foldHalves accumulates in float32. H says which of the two formats raw is in.
func foldHalves(dst []byte, inputs [][]byte, f fold, h DType) {
	var accTile, wideTile [tileElements]float32
	var raw [tileElements]uint16
	n := len(dst) / 2
	for lo := 0; lo < n; lo += tileElements {
		hi := min(lo+tileElements, n)
		acc, wide := accTile[:hi-lo], wideTile[:hi-lo]
		widenHalves(h, acc, tile(inputs[0], lo, hi, raw[:]))
		if f.op == PreMulSum {
			scale(acc, float32(f.factor))
		}
		for _, in := range inputs[1:] {
			x := tile(in, lo, hi, raw[:])
			switch f.op {
			case Sum, Avg:
				addHalves(h, acc, x)
			case PreMulSum:
				widenHalves(h, wide, x)
				addScaled(acc, wide, float32(f.factor))
			default:
				widenHalves(h, wide, x)
				combine(f.op, acc, acc, wide)
			}
		}
		if f.op == Avg && f.divisor != 1 {
			divide(acc, f.divisor)
		}
		out, aligned := sliceOf[uint16](dst[lo*2 : hi*2])
		if !aligned {
			out = raw[:hi-lo]
		}
		roundHalves(h, out, acc)
		if !aligned {
			put(dst, lo, out)
		}
	}
}

// addHalves is acc += src.
func addHalves(h DType, acc []float32, src []uint16) {
	done := kernelAddWide(h, acc, src)
	acc, src = acc[done:], src[done:]
	var wide [256]float32
	for len(src) > 0 {
		n := min(len(src), len(wide))
		widenHalves(h, wide[:n], src[:n])
		combine(Sum, acc[:n], acc[:n], wide[:n])
		acc, src = acc[n:], src[n:]
	}
}

// widenHalves is dst = src; the value is exact.
func widenHalves(h DType, dst []float32, src []uint16) {
	done := kernelWiden(h, dst, src)
	widenPortable(h, dst[done:], src[done:])
}

// roundHalves is dst = src, to the nearest, ties to even.
func roundHalves(h DType, dst []uint16, src []float32) {
	done := kernelRound(h, dst, src)
	roundPortable(h, dst[done:], src[done:])
}

// widenPortable and roundPortable are the loops of Float32 and of NewF16 and
// NewBF16 with the common case written out, since a call per element would
// take most of the time.
func widenPortable(h DType, dst []float32, src []uint16) {
	dst = dst[:len(src)]
	if h == BFloat16 {
		for i, v := range src {
			dst[i] = math.Float32frombits(uint32(v) << 16)
		}
		return
	}
	for i, v := range src {
		magnitude := uint32(v) & 0x7fff
		if magnitude-0x400 >= 0x7c00-0x400 { // subnormal, infinite or NaN
			dst[i] = F16(v).Float32()
			continue
		}
		dst[i] = math.Float32frombits((magnitude<<13 + (127-15)<<23) | uint32(v)&0x8000<<16)
	}
}

func roundPortable(h DType, dst []uint16, src []float32) {
	dst = dst[:len(src)]
	if h == BFloat16 {
		for i, v := range src {
			bits := math.Float32bits(v)
			if bits&^(1<<31) > f32Inf {
				dst[i] = uint16(NewBF16(v))
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
			dst[i] = uint16(NewF16(v))
			continue
		}
		magnitude += 0xfff + magnitude>>13&1 - (127-15)<<23
		dst[i] = uint16(magnitude>>13 | bits>>16&0x8000)
	}
}
