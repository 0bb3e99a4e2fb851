package tensor_test

import (
	"math"
	"math/big"
	"testing"

	"github.com/skerry-ft/skerry/tensor"
)

// TestFloat16RoundTrip: every half survives the way through float32; NaNs stay
// NaNs and become quiet.
func TestFloat16RoundTrip(t *testing.T) {
	for i := range 1 << 16 {
		h := tensor.F16(i)
		f := h.Float32()
		back := tensor.NewF16(f)
		if f != f {
			if exp, frac := i>>10&0x1f, i&0x3ff; exp != 0x1f || frac == 0 || back&0x7e00 != 0x7e00 {
				t.Fatalf("%#04x is NaN, back %#04x", i, back)
			}
			continue
		}
		if back != h {
			t.Fatalf("%#04x is %v, back %#04x", i, f, back)
		}
	}
}

// TestFloat16Value checks all finite halves against the definition.
func TestFloat16Value(t *testing.T) {
	for i := range 1 << 16 {
		exp, frac := i>>10&0x1f, i&0x3ff
		if exp == 0x1f {
			continue
		}
		want := math.Ldexp(float64(frac), -24)
		if exp > 0 {
			want = math.Ldexp(float64(frac|0x400), exp-25)
		}
		if i>>15 == 1 {
			want = -want
		}
		if got := float64(tensor.F16(i).Float32()); got != want || math.Signbit(got) != math.Signbit(want) {
			t.Fatalf("%#04x is %v, want %v", i, got, want)
		}
	}
}

// TestFloat16Rounding: between any two neighbours, the value just below the
// middle rounds down, the middle to the even one, just above it up.
func TestFloat16Rounding(t *testing.T) {
	for i := range 0x7bff {
		lo, hi := tensor.F16(i), tensor.F16(i+1)
		middle := (lo.Float32() + hi.Float32()) / 2 // exact: one bit more than a half has
		even := lo
		if i&1 == 1 {
			even = hi
		}
		for _, sign := range []float32{1, -1} {
			var bit tensor.F16
			if sign < 0 {
				bit = 0x8000
			}
			below := math.Nextafter32(middle, 0)
			above := math.Nextafter32(middle, float32(math.Inf(1)))
			for _, c := range []struct {
				f    float32
				want tensor.F16
			}{{below, lo}, {middle, even}, {above, hi}} {
				if got := tensor.NewF16(sign * c.f); got != c.want|bit {
					t.Fatalf("%v becomes %#04x, want %#04x", sign*c.f, got, c.want|bit)
				}
			}
		}
	}
}

func TestFloat16Extremes(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, c := range []struct {
		f    float32
		want tensor.F16
	}{
		{65504, 0x7bff}, {65519.996, 0x7bff}, {65520, 0x7c00}, {1e38, 0x7c00}, {inf, 0x7c00}, {-inf, 0xfc00},
		{0x1p-24, 1}, {0x1p-25, 0}, {0x1.000002p-25, 1}, {0x1p-149, 0}, {-0x1p-149, 0x8000}, {1, 0x3c00},
	} {
		if got := tensor.NewF16(c.f); got != c.want {
			t.Errorf("%v becomes %#04x, want %#04x", c.f, got, c.want)
		}
	}
	nan := math.Float32frombits(0xff800001) // signalling, negative, payload in the lowest bit
	if got := tensor.NewF16(nan); got != 0xfe00 {
		t.Errorf("signalling NaN becomes %#04x, want a quiet one, 0xfe00", got)
	}
	if got := tensor.NewBF16(nan); got != 0xffc0 {
		t.Errorf("signalling NaN becomes bfloat16 %#04x, want a quiet one, 0xffc0", got)
	}
}

// TestBFloat16Rounding compares with arithmetic of arbitrary precision.
func TestBFloat16Rounding(t *testing.T) {
	for i := uint32(0); i < 0x7f7f; i += 7 {
		lo, hi := tensor.BF16(i), tensor.BF16(i+1)
		sum := new(big.Float).Add(big.NewFloat(float64(lo.Float32())), big.NewFloat(float64(hi.Float32())))
		middle, _ := new(big.Float).Quo(sum, big.NewFloat(2)).Float32()
		even := lo
		if i&1 == 1 {
			even = hi
		}
		if got := tensor.NewBF16(middle); got != even {
			t.Fatalf("%v becomes %#04x, want %#04x", middle, got, even)
		}
		if got := tensor.NewBF16(math.Nextafter32(middle, 0)); got != lo {
			t.Fatalf("just below %v becomes %#04x, want %#04x", middle, got, lo)
		}
		if got := tensor.NewBF16(math.Nextafter32(middle, float32(math.Inf(1)))); got != hi {
			t.Fatalf("just above %v becomes %#04x, want %#04x", middle, got, hi)
		}
	}
	if got := tensor.NewBF16(math.MaxFloat32); got != 0x7f80 {
		t.Errorf("the largest float32 becomes %#04x, want infinity", got)
	}
}
