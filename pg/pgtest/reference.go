package pgtest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/skerry-ft/skerry/tensor"
)

// Fill writes values of t's dtype that depend only on seed: ones that show a
// wrong order of additions, and now and then a zero of either sign, an
// infinity, a subnormal or the largest value.
func Fill(t tensor.Tensor, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, uint64(t.DType())))
	b := t.Bytes()
	size := t.DType().Size()
	drawn := min(len(b), drawnElements*size)
	for i := 0; i < drawn; i += size {
		fillElement(b[i:i+size], t.DType(), rng)
	}
	for period := drawn; drawn < len(b); {
		drawn += copy(b[drawn:], b[:min(period, len(b)-drawn)])
	}
}

// drawnElements is after how many elements values repeat: a prime, so that no
// two frames or parts of a tensor are alike. Drawing all would take most of
// the suite's time.
const drawnElements = 1021

func fillElement(b []byte, dtype tensor.DType, rng *rand.Rand) {
	switch {
	case dtype == tensor.Bool:
		b[0] = byte(rng.IntN(2))
	case dtype.IsComplex():
		part, half := tensor.Float32, len(b)/2
		if dtype == tensor.Complex128 {
			part = tensor.Float64
		}
		putFloat(b[:half], part, randomFloat(rng))
		putFloat(b[half:], part, randomFloat(rng))
	case dtype.IsFloat():
		putFloat(b, dtype, randomFloat(rng))
	default:
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], rng.Uint64())
		copy(b, word[:])
	}
}

func randomFloat(rng *rand.Rand) float64 {
	switch rng.IntN(64) {
	case 0:
		return 0
	case 1:
		return math.Copysign(0, -1)
	case 2:
		return 0x1p-140 // subnormal as float32
	case 3:
		return 0x1p-20 // subnormal as float16
	case 4:
		return 65504 // the largest float16
	case 5:
		return math.Inf(1) // never -Inf: their sum would be a NaN of some payload
	}
	return rng.NormFloat64() * math.Ldexp(1, rng.IntN(12)-6)
}

func putFloat(b []byte, dtype tensor.DType, v float64) {
	switch dtype {
	case tensor.Float16:
		binary.NativeEndian.PutUint16(b, uint16(tensor.NewF16(float32(v))))
	case tensor.BFloat16:
		binary.NativeEndian.PutUint16(b, uint16(tensor.NewBF16(float32(v))))
	case tensor.Float32:
		binary.NativeEndian.PutUint32(b, math.Float32bits(float32(v)))
	default:
		binary.NativeEndian.PutUint64(b, math.Float64bits(v))
	}
}

func getFloat(b []byte, dtype tensor.DType) float64 {
	switch dtype {
	case tensor.Float16:
		return float64(tensor.F16(binary.NativeEndian.Uint16(b)).Float32())
	case tensor.BFloat16:
		return float64(tensor.BF16(binary.NativeEndian.Uint16(b)).Float32())
	case tensor.Float32:
		return float64(math.Float32frombits(binary.NativeEndian.Uint32(b)))
	default:
		return math.Float64frombits(binary.NativeEndian.Uint64(b))
	}
}

// Reduction is a reduce op with its parameters.
type Reduction struct {
	Op      tensor.ReduceOp
	Divisor int
	Factor  float64
}

// EachReduction calls f for every pair of dtype and reduce op that the host computes.
func EachReduction(f func(d tensor.DType, r Reduction)) {
	for _, d := range tensor.DTypes() {
		for _, o := range tensor.ReduceOps() {
			if d.Reduces(o) == nil {
				f(d, Reduction{Op: o, Divisor: 3, Factor: -0.3})
			}
		}
	}
}

// Reference folds inputs, in rank order, element by element: a second, slow
// implementation of what tensor.Reduce promises, which shares no code with it.
func Reference(dtype tensor.DType, r Reduction, inputs [][]byte) []byte {
	result := make([]byte, len(inputs[0]))
	size := dtype.Size()
	elements := make([][]byte, len(inputs))
	for i := 0; i < len(result); i += size {
		for k, in := range inputs {
			elements[k] = in[i : i+size]
		}
		referenceElement(result[i:i+size], dtype, r, elements)
	}
	return result
}

func referenceElement(dst []byte, dtype tensor.DType, r Reduction, in [][]byte) {
	switch {
	case dtype.IsComplex():
		referenceComplex(dst, dtype, r, in)
	case dtype.IsFloat():
		referenceFloat(dst, dtype, r, in)
	default:
		acc := integer(in[0], dtype)
		for _, b := range in[1:] {
			acc = referenceInt(acc, integer(b, dtype), dtype, r.Op)
		}
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], acc.bits)
		copy(dst, word[:])
	}
}

// wide is an integer of any dtype, sign-extended to 64 bits.
type wide struct {
	bits uint64
	sign bool
}

func integer(b []byte, dtype tensor.DType) wide {
	var word [8]byte
	copy(word[:], b)
	w := wide{bits: binary.LittleEndian.Uint64(word[:])}
	switch dtype {
	case tensor.Int8, tensor.Int16, tensor.Int32, tensor.Int64:
		shift := 64 - 8*len(b)
		v := int64(w.bits<<shift) >> shift
		w.bits, w.sign = uint64(v), v < 0
	}
	return w
}

// less orders two's complement numbers: negative ones first, then by bits.
func (w wide) less(o wide) bool {
	if w.sign != o.sign {
		return w.sign
	}
	return w.bits < o.bits
}

func referenceInt(a, b wide, dtype tensor.DType, op tensor.ReduceOp) wide {
	switch op {
	case tensor.Min:
		if b.less(a) {
			return b
		}
		return a
	case tensor.Max:
		if a.less(b) {
			return b
		}
		return a
	case tensor.Sum:
		a.bits += b.bits
	case tensor.Product:
		a.bits *= b.bits
	case tensor.BAnd:
		a.bits &= b.bits
	case tensor.BOr:
		a.bits |= b.bits
	case tensor.BXor:
		a.bits ^= b.bits
	}
	var word [8]byte
	binary.LittleEndian.PutUint64(word[:], a.bits)
	return integer(word[:dtype.Size()], dtype) // wraps
}

// referenceFloat accumulates in float64 and rounds each step to the
// accumulation type. That is exact: the float64 result of one operation on
// float32 values, rounded to float32, is the float32 result.
func referenceFloat(dst []byte, dtype tensor.DType, r Reduction, in [][]byte) {
	acc32 := dtype != tensor.Float64
	step := func(v float64) float64 {
		if acc32 {
			return float64(float32(v))
		}
		return v
	}
	term := func(b []byte) float64 {
		v := getFloat(b, dtype)
		if r.Op == tensor.PreMulSum {
			return step(v * step(r.Factor))
		}
		return v
	}
	acc := term(in[0])
	for _, b := range in[1:] {
		v := term(b)
		switch r.Op {
		case tensor.Product:
			acc = step(acc * v)
		case tensor.Min:
			acc = math.Min(acc, v)
		case tensor.Max:
			acc = math.Max(acc, v)
		default:
			acc = step(acc + v)
		}
	}
	if r.Op == tensor.Avg {
		acc = step(acc / float64(r.Divisor))
	}
	putFloat(dst, dtype, acc)
}

func referenceComplex(dst []byte, dtype tensor.DType, r Reduction, in [][]byte) {
	half := len(dst) / 2
	part := tensor.Float32
	if dtype == tensor.Complex128 {
		part = tensor.Float64
	}
	step := func(v float64) float64 {
		if part == tensor.Float32 {
			return float64(float32(v))
		}
		return v
	}
	re, im := getFloat(in[0][:half], part), getFloat(in[0][half:], part)
	for _, b := range in[1:] {
		x, y := getFloat(b[:half], part), getFloat(b[half:], part)
		if r.Op == tensor.Product {
			re, im = step(step(re*x)-step(im*y)), step(step(re*y)+step(im*x))
		} else {
			re, im = step(re+x), step(im+y)
		}
	}
	if r.Op == tensor.Avg {
		re, im = step(re/float64(r.Divisor)), step(im/float64(r.Divisor))
	}
	putFloat(dst[:half], part, re)
	putFloat(dst[half:], part, im)
}

// same compares results byte for byte, but takes any NaN for any other: which
// payload survives is the processor's business.
func same(dtype tensor.DType, got, want []byte) error {
	if bytes.Equal(got, want) {
		return nil
	}
	if len(got) != len(want) {
		return fmt.Errorf("%d bytes, want %d", len(got), len(want))
	}
	size, part := dtype.Size(), dtype
	switch dtype {
	case tensor.Complex64:
		size, part = 4, tensor.Float32
	case tensor.Complex128:
		size, part = 8, tensor.Float64
	}
	for i := 0; i < len(got); i += size {
		g, w := got[i:i+size], want[i:i+size]
		if bytes.Equal(g, w) {
			continue
		}
		if part.IsFloat() {
			if math.IsNaN(getFloat(g, part)) && math.IsNaN(getFloat(w, part)) {
				continue
			}
			return fmt.Errorf("part %d is %x (%v), want %x (%v)", i/size, g, getFloat(g, part), w, getFloat(w, part))
		}
		return fmt.Errorf("element %d is %x, want %x", i/size, g, w)
	}
	return nil
}
