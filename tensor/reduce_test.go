package tensor_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/tensor"
)

// TestReduce compares with the reference at sizes around the tile, for several
// numbers of ranks, at aligned and unaligned addresses, with the result in
// memory of its own and over each input.
func TestReduce(t *testing.T) {
	sizes, worlds := []int{0, 1, 7, 1023, 1024, 1025, 2500}, []int{1, 2, 3, 5}
	if testing.Short() {
		sizes, worlds = []int{0, 7, 1025}, []int{1, 2, 4}
	}
	pgtest.EachReduction(func(d tensor.DType, r pgtest.Reduction) {
		for _, n := range sizes {
			for _, ranks := range worlds {
				for _, shift := range []int{0, 1} {
					reduceOnce(t, d, r, n, ranks, shift)
				}
			}
		}
	})
}

func reduceOnce(t *testing.T, d tensor.DType, r pgtest.Reduction, n, ranks, shift int) {
	t.Helper()
	draw := func() [][]byte {
		inputs := make([][]byte, ranks)
		for i := range inputs {
			x := tensor.New(d, n)
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
		if err := tensor.Reduce(dst, inputs, d, r.Op, r.Divisor, r.Factor); err != nil {
			t.Fatalf("%v of %v: %v", r.Op, d, err)
		}
		if !bytes.Equal(dst, want) && !hasNaN(d, want) {
			t.Fatalf("%v of %d x %v[%d], shift %d, into %d: differs from the reference", r.Op, ranks, d, n, shift, into)
		}
	}
}

// hasNaN: payloads of NaNs are the processor's business. Only complex products
// of infinities make any here; those are compared by pgtest.
func hasNaN(d tensor.DType, b []byte) bool {
	if !d.IsComplex() {
		return false
	}
	if d == tensor.Complex64 {
		x, _ := tensor.FromBytes(tensor.Float32, b, len(b)/4)
		return slices.ContainsFunc(tensor.Slice[float32](x), func(f float32) bool { return f != f })
	}
	x, _ := tensor.FromBytes(tensor.Float64, b, len(b)/8)
	return slices.ContainsFunc(tensor.Slice[float64](x), func(f float64) bool { return f != f })
}

// TestIdentity: a rank that contributes the identity changes no bit, wherever
// it stands in the order. A complex product with infinite parts is exempt.
func TestIdentity(t *testing.T) {
	pgtest.EachReduction(func(d tensor.DType, r pgtest.Reduction) {
		if d.IsComplex() && r.Op == tensor.Product {
			return
		}
		for _, factor := range []float64{0.5, -0.5} {
			r.Factor = factor
			const n = 5000
			x, y, blank := tensor.New(d, n), tensor.New(d, n), tensor.New(d, n)
			pgtest.Fill(x, 1)
			pgtest.Fill(y, 2)
			if err := tensor.Identity(blank.Bytes(), d, r.Op, factor); err != nil {
				t.Fatalf("identity of %v of %v: %v", r.Op, d, err)
			}
			fold := func(inputs ...tensor.Tensor) []byte {
				var in [][]byte
				for _, x := range inputs {
					in = append(in, x.Bytes())
				}
				dst := make([]byte, x.NumBytes())
				if err := tensor.Reduce(dst, in, d, r.Op, r.Divisor, r.Factor); err != nil {
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
		d tensor.DType
		o tensor.ReduceOp
	}{
		{tensor.Int32, tensor.Avg}, {tensor.Int64, tensor.PreMulSum}, {tensor.Float32, tensor.BXor},
		{tensor.Complex64, tensor.Max}, {tensor.Complex128, tensor.BAnd}, {tensor.Complex64, tensor.PreMulSum},
		{tensor.Bool, tensor.Sum}, {tensor.Bool, tensor.Product}, {tensor.Bool, tensor.Avg},
		{tensor.Invalid, tensor.Sum}, {99, tensor.Sum}, {tensor.Float32, 99},
	} {
		err := c.d.Reduces(c.o)
		if !errors.Is(err, tensor.ErrUndefined) {
			t.Errorf("%v of %v: %v, want ErrUndefined", c.o, c.d, err)
		}
		if err := tensor.Reduce(nil, [][]byte{nil}, c.d, c.o, 1, 1); !errors.Is(err, tensor.ErrUndefined) {
			t.Errorf("Reduce: %v of %v: %v, want ErrUndefined", c.o, c.d, err)
		}
		if err := tensor.Identity(nil, c.d, c.o, 1); !errors.Is(err, tensor.ErrUndefined) {
			t.Errorf("Identity: %v of %v: %v, want ErrUndefined", c.o, c.d, err)
		}
	}
	eight := make([]byte, 8)
	for name, err := range map[string]error{
		"no inputs":     tensor.Reduce(eight, nil, tensor.Float32, tensor.Sum, 1, 1),
		"length":        tensor.Reduce(eight, [][]byte{eight, eight[:4]}, tensor.Float32, tensor.Sum, 1, 1),
		"half element":  tensor.Reduce(eight[:6], [][]byte{eight[:6]}, tensor.Float32, tensor.Sum, 1, 1),
		"divisor":       tensor.Reduce(eight, [][]byte{eight}, tensor.Float32, tensor.Avg, 0, 1),
		"half identity": tensor.Identity(eight[:6], tensor.Float32, tensor.Sum, 1),
	} {
		if !errors.Is(err, tensor.ErrUndefined) {
			t.Errorf("%s: %v, want ErrUndefined", name, err)
		}
	}
}

// TestReduceRoundsOnce: 16-bit sums keep float32's bits until the end.
func TestReduceRoundsOnce(t *testing.T) {
	big, small := tensor.NewF16(2048), tensor.NewF16(1)
	var in [][]byte
	for _, h := range []tensor.F16{big, small, small} {
		in = append(in, tensor.Of([]tensor.F16{h}).Bytes())
	}
	got := []tensor.F16{0}
	if err := tensor.Reduce(tensor.Of(got).Bytes(), in, tensor.Float16, tensor.Sum, 1, 1); err != nil {
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
	if err := tensor.Reduce(got, in, tensor.Bool, tensor.BAnd, 1, 1); err != nil || !bytes.Equal(got, []byte{0, 1, 1, 0}) {
		t.Errorf("band of %v is %v, %v; want [0 1 1 0]", in, got, err)
	}
}

func TestReduceAllocatesNothing(t *testing.T) {
	pgtest.EachReduction(func(d tensor.DType, r pgtest.Reduction) {
		x, y := tensor.New(d, 3000).Bytes(), tensor.New(d, 3000).Bytes()
		in := [][]byte{x, y}
		n := testing.AllocsPerRun(5, func() {
			if err := tensor.Reduce(x, in, d, r.Op, r.Divisor, r.Factor); err != nil {
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
		d tensor.DType
		o tensor.ReduceOp
	}{
		{tensor.Float32, tensor.Sum}, {tensor.Float32, tensor.Avg}, {tensor.Float32, tensor.Max},
		{tensor.Float64, tensor.Sum}, {tensor.BFloat16, tensor.Sum}, {tensor.Float16, tensor.Sum},
		{tensor.Int64, tensor.Sum}, {tensor.Complex64, tensor.Sum}, {tensor.Bool, tensor.BOr},
	} {
		for _, world := range []int{2, 4} {
			b.Run(fmt.Sprintf("dtype=%v/op=%v/bytes=256KiB/world=%d", c.d, c.o, world), func(b *testing.B) {
				const size = 256 << 10
				in := make([][]byte, world)
				for i := range in {
					x := tensor.New(c.d, size/c.d.Size())
					pgtest.Fill(x, uint64(i))
					in[i] = x.Bytes()
				}
				dst := make([]byte, size)
				b.SetBytes(int64(world * size))
				b.ReportAllocs()
				for b.Loop() {
					if err := tensor.Reduce(dst, in, c.d, c.o, world, 1); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
