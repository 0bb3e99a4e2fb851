package tensor

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"
)

// patterns are the bits at which vector and scalar code could differ, by element
// size: zeros, infinities, NaNs of both kinds and signs with payloads, subnormals,
// ties, extremes of integers.
func patterns(size int) []uint64 {
	switch size {
	case 1:
		return []uint64{0, 1, 0x7f, 0x80, 0xff}
	case 2:
		return []uint64{0, 1, 0x8000, 0x7fff, 0xffff, 0x7c00, 0xfc00, 0x7e01, 0xfd55, 0x7c01, 0x0400, 0x03ff, 0x8001, 0x7bff,
			0x3c00, 0x3c01, 0xbc01, 0x7f80, 0xff80, 0x7fc1, 0x7f81, 0xffa5, 0x3f80, 0x3f81, 0x7f7f, 0x0080, 0x007f}
	case 4:
		return []uint64{0, 1, 1 << 31, 0x7f800000, 0xff800000, 0x807fffff, 0x00800000, 0x7f7fffff, 0xff7fffff, 0x7fc00001,
			0xffc12345, 0x7f800001, 0xffa00000, 0x3f800000, 0xbf800000, 0x7fffffff, 0xffffffff}
	default:
		return []uint64{0, 1, 1 << 63, 0x7ff << 52, 0xfff << 52, 1<<63 | 1<<51, 1 << 52, 0x7fefffffffffffff, 0x7ff8000000000001,
			0xfff8123456789abc, 0x7ff0000000000001, 0xfff4 << 48, 0x3ff << 52, 0xbff << 52, 1<<63 - 1, 1<<64 - 1}
	}
}

// draw gives n elements: one in three a pattern, the others any bits or, for
// floats, ordinary numbers.
func draw(r *rand.Rand, d DType, n int) []byte {
	size := d.Size()
	if d.IsComplex() {
		size /= 2
		n *= 2
	}
	words := make([]uint64, (n*size+7)/8)
	b := bytesOf(words)[:n*size]
	some := patterns(size)
	for i := range n {
		var word [8]byte
		v := r.Uint64()
		switch k := r.IntN(3); {
		case k == 0:
			v = some[r.IntN(len(some))]
		case k == 1 && size == 4:
			v = uint64(math.Float32bits(float32(r.NormFloat64())))
		case k == 1 && size == 8:
			v = math.Float64bits(r.NormFloat64())
		}
		binary.LittleEndian.PutUint64(word[:], v)
		copy(b[i*size:], word[:size])
	}
	return b
}

// exactly compares bit for bit, but for which NaN a sum or product is.
func exactly[T integer | float32 | float64](op ReduceOp, got, want []T) int {
	for i := range got {
		same := bytes.Equal(bytesAt(got, i), bytesAt(want, i))
		if !same && (op == Min || op == Max || got[i] == got[i] || want[i] == want[i]) {
			return i
		}
	}
	return -1
}

func bytesAt[T any](s []T, i int) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&s[i])), unsafe.Sizeof(s[i]))
}

// twins compares combine with its portable twin, byte for byte, at lengths and
// offsets around those of the kernels, into memory of its own and in place.
func twins[T integer | float32 | float64](t *testing.T, d DType) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	per := kernelBlock / sizeOf[T]()
	for _, op := range []ReduceOp{Sum, Product, Min, Max} {
		for _, n := range []int{0, 1, per - 1, per, per + 1, 2*per + 3, 1000, 1024} {
			for shift := range 3 {
				x, _ := sliceOf[T](draw(r, d, n+shift))
				y, _ := sliceOf[T](draw(r, d, n+shift))
				x, y = x[shift:], y[shift:]
				want := make([]T, n)
				combinePortable(op, want, x, y)
				for into := range 3 {
					a, b := append([]T(nil), x...), append([]T(nil), y...)
					got := [][]T{make([]T, n), a, b}[into]
					combine(op, got, a, b)
					if i := exactly(op, got, want); i >= 0 {
						t.Fatalf("%v of %v, n %d, shift %d, into %d: element %d of %x and %x is %x, portable %x", op, d, n, shift,
							into, i, bytesAt(x, i), bytesAt(y, i), bytesAt(got, i), bytesAt(want, i))
					}
				}
			}
		}
	}
}

// kernelBlock is a length around which to look, whatever this processor has.
const kernelBlock = 128

func TestTwins(t *testing.T) {
	t.Parallel()
	if !hasKernels() {
		t.Log("no vector kernels on this processor: the twins are one")
	}
	twins[float32](t, Float32)
	twins[float64](t, Float64)
	twins[int8](t, Int8)
	twins[uint8](t, Uint8)
	twins[int16](t, Int16)
	twins[uint16](t, Uint16)
	twins[int32](t, Int32)
	twins[uint32](t, Uint32)
	twins[int64](t, Int64)
	twins[uint64](t, Uint64)
}

// TestLesser: a NaN wins, the first one, with all its bits; −0 is less than 0.
func TestLesser(t *testing.T) {
	t.Parallel()
	f := math.Float32frombits
	const negative, quiet, signalling, one = 1 << 31, 0x7fc00001, 0xff800002, 0x3f800000
	for _, c := range []struct{ a, b, lesser, greater uint32 }{
		{quiet, one, quiet, quiet}, {one, quiet, quiet, quiet}, {signalling, quiet, signalling, signalling},
		{quiet, signalling, quiet, quiet}, {0, negative, negative, 0}, {negative, 0, negative, 0}, {one, 0, 0, one},
	} {
		for _, n := range []int{1, 32} {
			x, y, got := make([]float32, n), make([]float32, n), make([]float32, n)
			for i := range n {
				x[i], y[i] = f(c.a), f(c.b)
			}
			for op, want := range map[ReduceOp]uint32{Min: c.lesser, Max: c.greater} {
				combine(op, got, x, y)
				if bits := math.Float32bits(got[n-1]); bits != want {
					t.Errorf("%v of %08x and %08x in %d: %08x, want %08x", op, c.a, c.b, n, bits, want)
				}
			}
		}
	}
}

// TestWidenTwins goes through all 16-bit floats. The kernel makes float16's NaNs
// quiet, which rounding does in the end anyway.
func TestWidenTwins(t *testing.T) {
	t.Parallel()
	all := make([]uint16, 1<<16)
	for i := range all {
		all[i] = uint16(i)
	}
	for _, h := range []DType{Float16, BFloat16} {
		got, want := make([]float32, len(all)), make([]float32, len(all))
		widenHalves(h, got, all)
		widenPortable(h, want, all)
		for i := range all {
			g, w := math.Float32bits(got[i]), math.Float32bits(want[i])
			if g != w && (h == BFloat16 || got[i] == got[i] || g != w|1<<22) {
				t.Fatalf("%v %04x is %08x, portable %08x", h, i, g, w)
			}
		}
	}
}

// TestRoundTwins goes through every exponent with fractions at, below and above
// the ties of both formats, and much besides.
func TestRoundTwins(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 8))
	var src []float32
	for high := range uint32(1 << 13) { // sign, exponent and four bits of fraction
		for _, low := range []uint32{0, 1, 0xfff, 0x1000, 0x1001, 0x1fff, 0x2000, 0x3000, 0x7fff, 0x8000, 0x8001, 0xffff, 0x17fff, 0x18000, 0x7ffff} {
			src = append(src, math.Float32frombits(high<<19|low))
		}
	}
	for range 200_000 {
		src = append(src, math.Float32frombits(r.Uint32()))
	}
	for _, h := range []DType{Float16, BFloat16} {
		for _, n := range []int{0, 1, 31, 32, 33, 1023, len(src)} {
			got, want := make([]uint16, n), make([]uint16, n)
			roundHalves(h, got, src[:n])
			roundPortable(h, want, src[:n])
			for i := range got {
				if got[i] != want[i] {
					t.Fatalf("%08x as %v is %04x, portable %04x", math.Float32bits(src[i]), h, got[i], want[i])
				}
			}
		}
	}
}

// portableHalf is one element of a fold of 16-bit floats, step by step.
func portableHalf(h DType, op ReduceOp, divisor int, factor float64, in []uint16) uint16 {
	var acc, wide [1]float32
	widenPortable(h, acc[:], in[:1])
	if op == PreMulSum {
		acc[0] *= float32(factor)
	}
	for i := range in[1:] {
		widenPortable(h, wide[:], in[1+i:2+i])
		if op == PreMulSum {
			acc[0] += float32(wide[0] * float32(factor))
		} else {
			combinePortable(op, acc[:], acc[:], wide[:])
		}
	}
	if op == Avg {
		acc[0] /= float32(divisor)
	}
	var out [1]uint16
	roundPortable(h, out[:], acc[:])
	return out[0]
}

// isNaN16 tells whether bits are a NaN in format h.
func isNaN16(h DType, bits uint16) bool {
	if h == Float16 {
		return bits&0x7fff > 0x7c00
	}
	return bits&0x7fff > 0x7f80
}

// TestHalfFolds compares whole folds of 16-bit floats with the portable steps.
func TestHalfFolds(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(9, 10))
	for _, h := range []DType{Float16, BFloat16} {
		for _, op := range []ReduceOp{Sum, Avg, Product, Min, Max, PreMulSum} {
			for _, n := range []int{1, 31, 33, 1024, 1500} {
				for ranks := 1; ranks <= 4; ranks++ {
					halfFold(t, r, h, op, n, ranks)
				}
			}
		}
	}
}

func halfFold(t *testing.T, r *rand.Rand, h DType, op ReduceOp, n, ranks int) {
	t.Helper()
	for shift := range 3 { // an odd one is unaligned
		inputs := make([][]byte, ranks)
		for i := range inputs {
			inputs[i] = append(make([]byte, shift, shift+2*n), draw(r, h, n)...)[shift:]
		}
		dst := make([]byte, shift+2*n)[shift:]
		if err := Reduce(dst, inputs, h, op, 3, -0.3); err != nil {
			t.Fatal(err)
		}
		column := make([]uint16, ranks)
		for i := range n {
			for k := range column {
				column[k] = binary.NativeEndian.Uint16(inputs[k][2*i:])
			}
			got, want := binary.NativeEndian.Uint16(dst[2*i:]), portableHalf(h, op, 3, -0.3, column)
			if got != want && (op == Min || op == Max || !isNaN16(h, got) || !isNaN16(h, want)) {
				t.Fatalf("%v of %v %04x is %04x, portable %04x", op, h, column, got, want)
			}
		}
	}
}

// TestTailsAlike: what an element's result is does not depend on how long the
// piece is that it lies in, NaNs included: pieces are cut by world size.
func TestTailsAlike(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(11, 12))
	const n = 1100
	for _, d := range DTypes() {
		for _, op := range ReduceOps() {
			if d.Reduces(op) != nil || d.IsComplex() && op == Product {
				continue
			}
			inputs := [][]byte{draw(r, d, n), draw(r, d, n), draw(r, d, n)}
			whole := make([]byte, n*d.Size())
			if err := Reduce(whole, inputs, d, op, 3, 0.7); err != nil {
				t.Fatal(err)
			}
			for _, cut := range []int{1, 5, 32, 100, 1025} {
				pieces := make([]byte, len(whole))
				for lo := 0; lo < n; lo += cut {
					at, end := lo*d.Size(), min(lo+cut, n)*d.Size()
					part := [][]byte{inputs[0][at:end], inputs[1][at:end], inputs[2][at:end]}
					if err := Reduce(pieces[at:end], part, d, op, 3, 0.7); err != nil {
						t.Fatal(err)
					}
				}
				if hasKernels() && !bytes.Equal(pieces, whole) {
					t.Errorf("%v of %v: differs in pieces of %d", op, d, cut)
				}
			}
		}
	}
}

// TestDivide: quotients are those of the language, whatever computes them.
func TestDivide(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	for _, divisor := range []int{2, 3, 7, 8, 1 << 20, 1<<20 + 1, 1 << 21} {
		a, _ := sliceOf[float32](draw(r, Float32, 1001))
		b, _ := sliceOf[float64](draw(r, Float64, 1001))
		x, y := append([]float32(nil), a...), append([]float64(nil), b...)
		divide(x, divisor)
		divide(y, divisor)
		for i := range a {
			if want := a[i] / float32(divisor); math.Float32bits(x[i]) != math.Float32bits(want) {
				t.Fatalf("%v / %d is %v, want %v", a[i], divisor, x[i], want)
			}
			if want := b[i] / float64(divisor); math.Float64bits(y[i]) != math.Float64bits(want) {
				t.Fatalf("%v / %d is %v, want %v", b[i], divisor, y[i], want)
			}
		}
	}
}

// FuzzKernels compares the kernels with the portable loops on any bits.
func FuzzKernels(f *testing.F) {
	r := rand.New(rand.NewPCG(13, 14))
	for _, d := range []DType{Float32, Float64, Float16, Int8} {
		f.Add(draw(r, d, 100), draw(r, d, 100))
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		n := min(len(a), len(b)) / 8 * 8
		x, y := make([]byte, n), make([]byte, n) // aligned from here on, unless tiny
		copy(x, a)
		copy(y, b)
		fuzzTwin[float32](t, x, y)
		fuzzTwin[float64](t, x, y)
		fuzzTwin[int8](t, x, y)
		fuzzTwin[uint8](t, x, y)
		fuzzTwin[int16](t, x, y)
		fuzzTwin[uint16](t, x, y)
		fuzzTwin[int32](t, x, y)
		fuzzTwin[uint32](t, x, y)
		fuzzTwin[int64](t, x, y)
		fuzzTwin[uint64](t, x, y)
	})
}

func fuzzTwin[T integer | float32 | float64](t *testing.T, x, y []byte) {
	t.Helper()
	a, ok1 := sliceOf[T](x)
	b, ok2 := sliceOf[T](y)
	if !ok1 || !ok2 {
		return
	}
	got, want := make([]T, len(a)), make([]T, len(a))
	for _, op := range []ReduceOp{Sum, Product, Min, Max} {
		combine(op, got, a, b)
		combinePortable(op, want, a, b)
		if i := exactly(op, got, want); i >= 0 {
			t.Fatalf("%v of %T: element %d of %v and %v is %v, portable %v", op, a, i, a[i], b[i], got[i], want[i])
		}
	}
}
