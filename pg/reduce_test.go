package pg_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
)

// eachPair runs f for every pair of dtype and reduce op that exists.
func eachPair(f func(d pg.DType, r pgtest.Reduction)) {
	for _, d := range pg.DTypes() {
		for _, o := range pg.ReduceOps() {
			if d.Reduces(o) == nil {
				f(d, pgtest.Reduction{Op: o, Divisor: 3, Factor: -0.3})
			}
		}
	}
}

// TestReduce compares with the reference at sizes around the tile, for several
// numbers of ranks, at aligned and unaligned addresses, with the result in
// memory of its own and over each input.
func TestReduce(t *testing.T) {
	sizes, worlds := []int{0, 1, 7, 1023, 1024, 1025, 2500}, []int{1, 2, 3, 5}
	if testing.Short() {
		sizes, worlds = []int{0, 7, 1025}, []int{1, 2, 4}
	}
	eachPair(func(d pg.DType, r pgtest.Reduction) {
		for _, n := range sizes {
			for _, ranks := range worlds {
				for _, shift := range []int{0, 1} {
					reduceOnce(t, d, r, n, ranks, shift)
				}
			}
		}
	})
}

func reduceOnce(t *testing.T, d pg.DType, r pgtest.Reduction, n, ranks, shift int) {
	t.Helper()
	draw := func() [][]byte {
		inputs := make([][]byte, ranks)
		for i := range inputs {
			x := pg.New(d, n)
			pgtest.Fill(x, uint64(i*100+n))
			inputs[i] = append(make([]byte, shift, shift+x.NumBytes()), x.Bytes()...)[shift:]
		}
		return inputs
	}
	want := pgtest.Reference(d, r, draw())
	for into := -1; into < ranks; into++ {
		inputs := draw()
		dst := make([]byte, len(want)+shift)[shift:]
		if into >= 0 {
			dst = inputs[into]
		}
		if err := pg.Reduce(dst, inputs, d, r.Op, r.Divisor, r.Factor); err != nil {
			t.Fatalf("%v of %v: %v", r.Op, d, err)
		}
		if !bytes.Equal(dst, want) && !hasNaN(d, want) {
			t.Fatalf("%v of %d x %v[%d], shift %d, into %d: differs from the reference", r.Op, ranks, d, n, shift, into)
		}
	}
}

// hasNaN: payloads of NaNs are the processor's business. Only complex products
// of infinities make any here; those are compared by pgtest.
func hasNaN(d pg.DType, b []byte) bool {
	if !d.IsComplex() {
		return false
	}
	if d == pg.Complex64DType {
		x, _ := pg.FromBytes(pg.Float32DType, b, len(b)/4)
		return slices.ContainsFunc(pg.Slice[float32](x), func(f float32) bool { return f != f })
	}
	x, _ := pg.FromBytes(pg.Float64DType, b, len(b)/8)
	return slices.ContainsFunc(pg.Slice[float64](x), func(f float64) bool { return f != f })
}

// TestIdentity: a rank that contributes the identity changes no bit, wherever
// it stands in the order. A complex product with infinite parts is exempt.
func TestIdentity(t *testing.T) {
	eachPair(func(d pg.DType, r pgtest.Reduction) {
		if d.IsComplex() && r.Op == pg.Product {
			return
		}
		for _, factor := range []float64{0.5, -0.5} {
			r.Factor = factor
			const n = 5000
			x, y, blank := pg.New(d, n), pg.New(d, n), pg.New(d, n)
			pgtest.Fill(x, 1)
			pgtest.Fill(y, 2)
			if err := pg.Identity(blank.Bytes(), d, r.Op, factor); err != nil {
				t.Fatalf("identity of %v of %v: %v", r.Op, d, err)
			}
			fold := func(inputs ...pg.Tensor) []byte {
				var in [][]byte
				for _, x := range inputs {
					in = append(in, x.Bytes())
				}
				dst := make([]byte, x.NumBytes())
				if err := pg.Reduce(dst, in, d, r.Op, r.Divisor, r.Factor); err != nil {
					t.Fatal(err)
				}
				return dst
			}
			want := fold(x, y)
			for i, got := range [][]byte{fold(blank, x, y), fold(x, blank, y), fold(x, y, blank)} {
				if !bytes.Equal(got, want) {
					t.Errorf("%v of %v, factor %v: identity at place %d changes the result", r.Op, d, factor, i)
				}
			}
		}
	})
}

func TestReducesRefuses(t *testing.T) {
	for _, c := range []struct {
		d pg.DType
		o pg.ReduceOp
	}{
		{pg.Int32DType, pg.Avg}, {pg.Int64DType, pg.PreMulSum}, {pg.Float32DType, pg.BXor},
		{pg.Complex64DType, pg.Max}, {pg.Complex128DType, pg.BAnd}, {pg.Complex64DType, pg.PreMulSum},
		{pg.BoolDType, pg.Sum}, {pg.BoolDType, pg.Product}, {pg.BoolDType, pg.Avg},
		{pg.InvalidDType, pg.Sum}, {99, pg.Sum}, {pg.Float32DType, 99},
	} {
		err := c.d.Reduces(c.o)
		if !errors.Is(err, pg.ErrUndefined) {
			t.Errorf("%v of %v: %v, want ErrUndefined", c.o, c.d, err)
		}
		if err := pg.Reduce(nil, [][]byte{nil}, c.d, c.o, 1, 1); !errors.Is(err, pg.ErrUndefined) {
			t.Errorf("Reduce: %v of %v: %v, want ErrUndefined", c.o, c.d, err)
		}
		if err := pg.Identity(nil, c.d, c.o, 1); !errors.Is(err, pg.ErrUndefined) {
			t.Errorf("Identity: %v of %v: %v, want ErrUndefined", c.o, c.d, err)
		}
	}
	eight := make([]byte, 8)
	for name, err := range map[string]error{
		"no inputs":     pg.Reduce(eight, nil, pg.Float32DType, pg.Sum, 1, 1),
		"length":        pg.Reduce(eight, [][]byte{eight, eight[:4]}, pg.Float32DType, pg.Sum, 1, 1),
		"half element":  pg.Reduce(eight[:6], [][]byte{eight[:6]}, pg.Float32DType, pg.Sum, 1, 1),
		"divisor":       pg.Reduce(eight, [][]byte{eight}, pg.Float32DType, pg.Avg, 0, 1),
		"half identity": pg.Identity(eight[:6], pg.Float32DType, pg.Sum, 1),
	} {
		if !errors.Is(err, pg.ErrUndefined) {
			t.Errorf("%s: %v, want ErrUndefined", name, err)
		}
	}
}

// TestReduceRoundsOnce: 16-bit sums keep float32's bits until the end.
func TestReduceRoundsOnce(t *testing.T) {
	big, small := pg.NewFloat16(2048), pg.NewFloat16(1)
	var in [][]byte
	for _, h := range []pg.Float16{big, small, small} {
		in = append(in, pg.Of([]pg.Float16{h}).Bytes())
	}
	got := []pg.Float16{0}
	if err := pg.Reduce(pg.Of(got).Bytes(), in, pg.Float16DType, pg.Sum, 1, 1); err != nil {
		t.Fatal(err)
	}
	// Rounded after each step, 2048 + 1 would stay 2048, twice.
	if f := got[0].Float32(); f != 2050 {
		t.Errorf("2048 + 1 + 1 is %v in float16, want 2050", f)
	}
}

func TestReduceBoolsAreClean(t *testing.T) {
	got := make([]byte, 4)
	in := [][]byte{{0, 2, 255, 1}, {0, 4, 1, 0}}
	if err := pg.Reduce(got, in, pg.BoolDType, pg.BAnd, 1, 1); err != nil || !bytes.Equal(got, []byte{0, 1, 1, 0}) {
		t.Errorf("band of %v is %v, %v; want [0 1 1 0]", in, got, err)
	}
}

func TestReduceAllocatesNothing(t *testing.T) {
	eachPair(func(d pg.DType, r pgtest.Reduction) {
		x, y := pg.New(d, 3000).Bytes(), pg.New(d, 3000).Bytes()
		in := [][]byte{x, y}
		n := testing.AllocsPerRun(5, func() {
			if err := pg.Reduce(x, in, d, r.Op, r.Divisor, r.Factor); err != nil {
				t.Fatal(err)
			}
		})
		if n != 0 {
			t.Errorf("%v of %v allocates %v times", r.Op, d, n)
		}
	})
}

func BenchmarkReduce(b *testing.B) {
	for _, c := range []struct {
		d pg.DType
		o pg.ReduceOp
	}{
		{pg.Float32DType, pg.Sum}, {pg.Float32DType, pg.Avg}, {pg.Float32DType, pg.Max},
		{pg.Float64DType, pg.Sum}, {pg.BFloat16DType, pg.Sum}, {pg.Float16DType, pg.Sum},
		{pg.Int64DType, pg.Sum}, {pg.Complex64DType, pg.Sum}, {pg.BoolDType, pg.BOr},
	} {
		for _, world := range []int{2, 4} {
			b.Run(fmt.Sprintf("dtype=%v/op=%v/bytes=256KiB/world=%d", c.d, c.o, world), func(b *testing.B) {
				const size = 256 << 10
				in := make([][]byte, world)
				for i := range in {
					x := pg.New(c.d, size/c.d.Size())
					pgtest.Fill(x, uint64(i))
					in[i] = x.Bytes()
				}
				dst := make([]byte, size)
				b.SetBytes(int64(world * size))
				b.ReportAllocs()
				for b.Loop() {
					if err := pg.Reduce(dst, in, c.d, c.o, world, 1); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
