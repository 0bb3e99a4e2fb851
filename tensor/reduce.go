package tensor

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Reduces tells whether reduce op o is defined for elements of dtype d; the
// error wraps ErrUndefined and says why not.
//
//   - Integers take all but Avg (whose result would not be an integer) and
//     PreMulSum; sums and products wrap.
//   - Floats take the arithmetic ops, not the bitwise ones.
//   - Complex numbers have no order, so no Min and Max, and no bits.
//   - Bools take BAnd, BOr, BXor, Min (and) and Max (or).
func (d DType) Reduces(o ReduceOp) error {
	if !d.Valid() || !o.Valid() {
		return fmt.Errorf("%w: %v of %v", ErrUndefined, o, d)
	}
	bitwise := o == BAnd || o == BOr || o == BXor
	var why string
	switch {
	case d.IsInteger() && o == Avg:
		why = "a mean of integers is not an integer; use sum"
	case d.IsInteger() && o == PreMulSum, d.IsComplex() && o == PreMulSum:
		why = "takes floating-point elements only"
	case d.IsFloat() && bitwise, d.IsFloat8() && bitwise, d.IsComplex() && bitwise:
		why = "takes integers and bools only"
	case d.IsComplex() && (o == Min || o == Max):
		why = "complex numbers have no order"
	case d == Bool && !bitwise && o != Min && o != Max:
		why = "bools are not numbers; use band, bor or bxor"
	default:
		return nil
	}
	return fmt.Errorf("%w: %v of %v: %s", ErrUndefined, o, d, why)
}

// Reduce folds inputs element by element, from the left, in the order given,
// which is rank order, and writes the result to dst. All have the same length,
// a multiple of the element size, and may start at any address; dst may be one
// of the inputs, but may not overlap one otherwise.
//
// The fold is done in the accumulation type: float32 for float16 and bfloat16,
// else the dtype itself; the result is rounded once, at the end. Avg divides
// by divisor before that. PreMulSum multiplies every input by factor first.
// Min and Max of floats: a NaN wins, the first in the order of inputs, with its
// bits (16-bit floats make it quiet); −0 is less than 0. A sum or product of
// NaNs is a NaN; which, is the processor's business.
//
// It allocates nothing. Errors wrap ErrUndefined: the pair of dtype and op is
// not defined, no inputs, unequal lengths, a divisor below 1 for Avg.
// Cost: one pass over inputs in tiles that stay in the first-level cache.
func Reduce(dst []byte, inputs [][]byte, dtype DType, op ReduceOp, divisor int, factor float64) error {
	if err := dtype.Reduces(op); err != nil {
		return err
	}
	if dtype.IsFloat8() {
		return noHostArithmetic(dtype, op)
	}
	if len(inputs) == 0 {
		return fmt.Errorf("%w: %v of no inputs", ErrUndefined, op)
	}
	if op == Avg && divisor < 1 {
		return fmt.Errorf("%w: avg with divisor %d, want at least 1", ErrUndefined, divisor)
	}
	if len(dst)%dtype.Size() != 0 {
		return fmt.Errorf("%w: %d bytes of %v", ErrUndefined, len(dst), dtype)
	}
	for i, in := range inputs {
		if len(in) != len(dst) {
			return fmt.Errorf("%w: input %d has %d bytes, result has %d", ErrUndefined, i, len(in), len(dst))
		}
	}
	f := fold{op: op, divisor: divisor, factor: factor}
	switch dtype {
	case Uint8:
		foldInts[uint8](dst, inputs, op)
	case Int8:
		foldInts[int8](dst, inputs, op)
	case Int16:
		foldInts[int16](dst, inputs, op)
	case Int32:
		foldInts[int32](dst, inputs, op)
	case Int64:
		foldInts[int64](dst, inputs, op)
	case Uint16:
		foldInts[uint16](dst, inputs, op)
	case Uint32:
		foldInts[uint32](dst, inputs, op)
	case Uint64:
		foldInts[uint64](dst, inputs, op)
	case Bool:
		foldBools(dst, inputs, op)
	case Float16:
		foldHalves(dst, inputs, f, Float16)
	case BFloat16:
		foldHalves(dst, inputs, f, BFloat16)
	case Float32:
		foldFloats[float32](dst, inputs, f)
	case Float64:
		foldFloats[float64](dst, inputs, f)
	case Complex64:
		foldComplex[complex64, float32](dst, inputs, f, multiply64)
	case Complex128:
		foldComplex[complex128, float64](dst, inputs, f, multiply128)
	}
	return nil
}

// Identity fills dst with the identity element of a reduce op: what a rank
// contributes that must not change the result. For a floating-point sum that
// is −0, not 0, since −0 + 0 would be 0. It is exact for all but a complex
// product with infinite parts. Factor is that of PreMulSum; others ignore it.
func Identity(dst []byte, dtype DType, op ReduceOp, factor float64) error {
	if err := dtype.Reduces(op); err != nil {
		return err
	}
	size := dtype.Size()
	if len(dst)%size != 0 {
		return fmt.Errorf("%w: %d bytes of %v", ErrUndefined, len(dst), dtype)
	}
	if len(dst) == 0 {
		return nil
	}
	var element [16]byte
	identityElement(element[:size], dtype, op, math.Signbit(factor))
	copy(dst, element[:size])
	for done := size; done < len(dst); done *= 2 {
		copy(dst[done:], dst[:done])
	}
	return nil
}

func identityElement(e []byte, dtype DType, op ReduceOp, negative bool) {
	switch {
	case dtype == Bool:
		if op == BAnd || op == Min {
			e[0] = 1
		}
	case dtype.IsInteger():
		putInt(e, integerIdentity(dtype, op))
	case dtype.IsFloat8():
		e[0] = float8Identity(dtype, op, negative)
	case dtype.IsComplex():
		part := len(e) / 2
		partType := map[int]DType{4: Float32, 8: Float64}[part]
		putFloat(e[:part], partType, floatIdentity(op, negative))
		if op != Product { // 1 + 0i
			putFloat(e[part:], partType, floatIdentity(op, negative))
		}
	default:
		putFloat(e, dtype, floatIdentity(op, negative))
	}
}

func floatIdentity(op ReduceOp, negative bool) float64 {
	switch op {
	case Product:
		return 1
	case Min:
		return math.Inf(1)
	case Max:
		return math.Inf(-1)
	case PreMulSum:
		if negative {
			return 0 // 0 times a negative factor is −0
		}
	}
	return math.Copysign(0, -1)
}

// integerIdentity is the identity as 64 bits, of which the element keeps the
// lower ones.
func integerIdentity(dtype DType, op ReduceOp) uint64 {
	width := uint(dtype.Size()) * 8
	unsigned := dtype == Uint8 || dtype >= Uint16
	switch op {
	case Product:
		return 1
	case BAnd:
		return math.MaxUint64
	case Min:
		if unsigned {
			return math.MaxUint64
		}
		return 1<<(width-1) - 1
	case Max:
		if unsigned {
			return 0
		}
		return 1 << (width - 1)
	default: // Sum, BOr, BXor
		return 0
	}
}

func putInt(e []byte, v uint64) {
	switch len(e) {
	case 1:
		e[0] = byte(v)
	case 2:
		binary.NativeEndian.PutUint16(e, uint16(v))
	case 4:
		binary.NativeEndian.PutUint32(e, uint32(v))
	default:
		binary.NativeEndian.PutUint64(e, v)
	}
}

func putFloat(e []byte, dtype DType, v float64) {
	switch dtype {
	case Float16:
		binary.NativeEndian.PutUint16(e, uint16(NewF16(float32(v))))
	case BFloat16:
		binary.NativeEndian.PutUint16(e, uint16(NewBF16(float32(v))))
	case Float32:
		binary.NativeEndian.PutUint32(e, math.Float32bits(float32(v)))
	default:
		binary.NativeEndian.PutUint64(e, math.Float64bits(v))
	}
}
