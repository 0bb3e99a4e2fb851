package pg

import (
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"
)

// special are values at which vector and scalar code could differ.
func special[T integer | float32 | float64](r *rand.Rand, i int) T {
	var zero T
	switch any(zero).(type) {
	case float32:
		values := []float32{0, float32(math.Copysign(0, -1)), float32(math.Inf(1)), float32(math.Inf(-1)),
			math.SmallestNonzeroFloat32, math.MaxFloat32, -math.MaxFloat32, 1e-38, 1, -1}
		if i%3 == 0 {
			return T(values[r.IntN(len(values))])
		}
		return T(r.NormFloat64())
	case float64:
		values := []float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1),
			math.SmallestNonzeroFloat64, math.MaxFloat64, -math.MaxFloat64, 1e-308, 1, -1}
		if i%3 == 0 {
			return T(values[r.IntN(len(values))])
		}
		return T(r.NormFloat64())
	default:
		return T(r.Uint64())
	}
}

// twins compares combine with its portable twin, byte for byte, at lengths and
// offsets around those of the kernels, into memory of its own and in place. A
// NaN that came of infinities is a NaN on both sides; which one, is not compared.
func twins[T integer | float32 | float64](t *testing.T) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	size := int(unsafe.Sizeof(*new(T)))
	for _, op := range []ReduceOp{Sum, Product, Min, Max} {
		for _, n := range []int{0, 1, 128/size - 1, 128 / size, 128/size + 1, 1000, 1024} {
			for shift := range 3 {
				a, b := make([]T, n+shift)[shift:], make([]T, n+shift)[shift:]
				for i := range a {
					a[i], b[i] = special[T](r, i), special[T](r, i+r.IntN(3))
				}
				want := make([]T, n)
				combinePortable(op, want, a, b)
				for into := range 3 {
					x, y := append([]T(nil), a...), append([]T(nil), b...)
					got := [][]T{make([]T, n), x, y}[into]
					combine(op, got, x, y)
					for i := range got {
						if got[i] != want[i] && (got[i] == got[i] || want[i] == want[i]) {
							t.Fatalf("%v of %T, n %d, shift %d, into %d: element %d of %v and %v is %v, portable %v",
								op, got[i], n, shift, into, i, a[i], b[i], got[i], want[i])
						}
						if got[i] == 0 && math.Signbit(float64(got[i])) != math.Signbit(float64(want[i])) {
							t.Fatalf("%v of %T: sign of zero differs", op, got[i])
						}
					}
				}
			}
		}
	}
}

func TestTwins(t *testing.T) {
	t.Parallel()
	if !hasKernels() {
		t.Log("no vector kernels on this processor: the twins are one")
	}
	twins[float32](t)
	twins[float64](t)
	twins[int32](t)
	twins[uint32](t)
	twins[int64](t)
	twins[uint64](t)
	twins[int16](t)
	twins[uint8](t)
}

// TestDivide: quotients are those of the language, whatever computes them.
func TestDivide(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	for _, divisor := range []int{2, 3, 7, 8, 1 << 20, 1<<20 + 1, 1 << 21} {
		a, b := make([]float32, 1001), make([]float64, 1001)
		for i := range a {
			a[i], b[i] = special[float32](r, i), special[float64](r, i)
		}
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
