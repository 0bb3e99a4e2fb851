package tensor

import (
	"errors"
	"math"
	"testing"
)

// TestConvert compares every pair of dtypes with the conversion of one element, over
// lengths around the tile's.
func TestConvert(t *testing.T) {
	t.Parallel()
	special := []float64{0, math.Copysign(0, -1), 1, -1.0009765625, 1.00048828125, 65504, 65519.9, 65520, 1e-8, 6e-8, 3e38, 1e39, math.Inf(-1), 0.1}
	types := []DType{Float16, BFloat16, Float32, Float64}
	for _, n := range []int{0, 1, len(special), tileElements - 1, tileElements, 2*tileElements + 3} {
		for _, from := range types {
			src := New(from, n)
			for i := range n {
				putFloat(src.Bytes()[i*from.Size():(i+1)*from.Size()], from, special[i%len(special)]*(1+float64(i/len(special))/64))
			}
			for _, to := range types {
				dst := New(to, n)
				if err := Convert(dst, src); err != nil {
					t.Fatal(err)
				}
				for i := range n {
					one, want := src.Flat(i, i+1), valueOf(src.Flat(i, i+1))
					if from == Float64 && to != Float64 {
						want = float64(float32(want))
					}
					switch to {
					case Float16:
						want = float64(NewF16(float32(want)).Float32())
					case BFloat16:
						want = float64(NewBF16(float32(want)).Float32())
					}
					if got := valueOf(dst.Flat(i, i+1)); math.Float64bits(got) != math.Float64bits(want) {
						t.Fatalf("%v %v to %v: %v, want %v", one, valueOf(one), to, got, want)
					}
				}
			}
		}
	}
}

// valueOf is the only element.
func valueOf(t Tensor) float64 {
	switch t.DType() {
	case Float16:
		return float64(Slice[F16](t)[0].Float32())
	case BFloat16:
		return float64(Slice[BF16](t)[0].Float32())
	case Float32:
		return float64(Slice[float32](t)[0])
	default:
		return Slice[float64](t)[0]
	}
}

func TestConvertRefuses(t *testing.T) {
	t.Parallel()
	strided, err := New(Float32, 8).AsStrided([]int{4}, []int{2})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]Tensor{
		{New(Float32, 3), New(Float16, 4)}, {New(Int32, 4), New(Float32, 4)},
		{New(Float32, 4), New(Complex64, 4)}, {New(Float16, 4), strided}, {Tensor{}, Tensor{}},
	} {
		if err := Convert(c[0], c[1]); !errors.Is(err, ErrUndefined) {
			t.Errorf("convert %v to %v: %v, want ErrUndefined", c[1], c[0], err)
		}
	}
}

func BenchmarkConvert(b *testing.B) {
	wide, half := New(Float32, 1<<20), New(BFloat16, 1<<20)
	b.SetBytes(4 << 20)
	b.ReportAllocs()
	for b.Loop() {
		if err := Convert(half, wide); err != nil {
			b.Fatal(err)
		}
	}
}
