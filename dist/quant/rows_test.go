package quant

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
)

// Every number of the format is its own nearest, and so is what lies nearer to it than to
// its neighbours; a tie goes to the even code.
func TestE4M3Codes(t *testing.T) {
	t.Parallel()
	for code := range byte(e4m3NaNCode) {
		v := e4m3Value(code)
		for _, sign := range []byte{0, e4m3Sign} {
			signed := v
			if sign != 0 {
				signed = -v
			}
			if got := e4m3Code(signed); got != sign|code {
				t.Errorf("code of %v: %#x, want %#x", signed, got, sign|code)
			}
		}
		if code == e4m3MostCode {
			break
		}
		next := e4m3Value(code + 1)
		tie := (v + next) / 2
		for x, want := range map[float32]byte{
			math.Nextafter32(tie, v):    code,
			tie:                         code + code&1,
			math.Nextafter32(tie, next): code + 1,
		} {
			if got := e4m3Code(x); got != want {
				t.Errorf("code of %v, between %v and %v: %#x, want %#x", x, v, next, got, want)
			}
		}
	}
	if e4m3Value(e4m3MostCode) != e4m3Most || e4m3Value(1) != e4m3Step || e4m3Value(8) != e4m3Normal || e4m3Value(0x38) != 1 {
		t.Errorf("largest %v, smallest %v, smallest normal %v, one %v",
			e4m3Value(e4m3MostCode), e4m3Value(1), e4m3Value(8), e4m3Value(0x38))
	}
	if got := e4m3Code(1e9); got != e4m3MostCode {
		t.Errorf("code of 1e9: %#x, want the largest", got)
	}
	if v := e4m3Value(e4m3NaNCode); v == v {
		t.Errorf("value of %#x: %v, want NaN", e4m3NaNCode, v)
	}
}

// there takes elements to a slot and back.
func there(f Format, x []float32, row int) []float32 {
	o := Options{Format: f, Row: row}
	l, c, back := o.layout(World{len(x), 1}), newCodec(f), make([]float32, len(x))
	slot := make([]byte, l.slot)
	c.encode(slot, x, l)
	c.decode(slot, len(x), l, func(from int, row []float32) { copy(back[from:], row) })
	return back
}

// bound is how far an element of a row may be off: see the package comment.
func bound(f Format, x, most float64) float64 {
	scale := max(most/float64(f.most()), smallestScale)
	if f == Int8 {
		return scale / 2 * (1 + 1e-6)
	}
	return max(math.Abs(x)/16, scale/1024) * (1 + 1e-6)
}

func TestRowsKeepTheirBound(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for f := range formats {
		for _, size := range []float64{1e-44, 1e-38, 1e-30, 1, 1e30, 3e38} {
			x := make([]float32, 1000)
			for i := range x {
				x[i] = float32(size * math.Pow(r.Float64(), 4) * (2*r.Float64() - 1))
			}
			const row = 37
			for i, got := range there(f, x, row) {
				var most float64
				for _, v := range x[i/row*row : min(i/row*row+row, len(x))] {
					most = max(most, math.Abs(float64(v)))
				}
				if off := math.Abs(float64(got) - float64(x[i])); off > bound(f, float64(x[i]), most) {
					t.Fatalf("%v of %v in a row up to %v came back as %v: off by %v, want at most %v",
						f, x[i], most, got, off, bound(f, float64(x[i]), most))
				}
			}
		}
	}
}

func TestRowsThatAreNotNumbers(t *testing.T) {
	t.Parallel()
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for f := range formats {
		got := there(f, []float32{0, float32(math.Copysign(0, -1)), 1, nan, 2, -inf, 1, -2}, 2)
		for i, bad := range []bool{false, false, true, true, true, true, false, false} {
			bits := math.Float32bits(got[i])
			if (bits == 0x7fc00000) != bad {
				t.Errorf("%v: element %d is %v, bits %#x; want NaN: %t", f, i, got[i], bits, bad)
			}
		}
		if math.Float32bits(got[0]) != 0 || math.Float32bits(got[1]) != 0 {
			t.Errorf("%v: zeros came back as %v", f, got[:2])
		}
	}
}

// Whatever bytes a peer sends as a slot become as many floats, and a scale that is no
// number makes the one NaN.
func FuzzSlot(f *testing.F) {
	f.Add(uint8(Int8), uint16(5), []byte{0, 0, 0x80, 0x7f, 1, 2, 3, 0, 0, 0x80, 0x3f, 4, 5, 6})
	f.Add(uint8(E4M3), uint16(9), []byte{1, 2, 0xc0, 0xff, 0x7f, 0xff})
	f.Fuzz(func(t *testing.T, format uint8, elements uint16, bytes []byte) {
		o := Options{Format: Format(format % uint8(formats)), Row: 3}
		w := World{Elements: max(int(elements), 1), Ranks: 1}
		l, n := o.layout(w), 0
		slot := make([]byte, l.slot)
		copy(slot, bytes)
		newCodec(o.Format).decode(slot, w.Elements, l, func(from int, row []float32) {
			scale := math.Float32frombits(binary.LittleEndian.Uint32(slot[from/l.row*scaleBytes:]))
			for _, v := range row {
				if scale-scale != 0 && math.Float32bits(v) != 0x7fc00000 {
					t.Errorf("scale %v: element %v", scale, v)
				}
			}
			n += len(row)
		})
		if n != w.Elements {
			t.Errorf("%d elements, want %d", n, w.Elements)
		}
	})
}
