package quant_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/skerry-ft/skerry/dist/quant"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/managedtest"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/tensor"
)

// options are those that tests run through.
func options() []quant.Options {
	return []quant.Options{{Row: 8}, {Format: quant.E4M3, Row: 8}, {Row: 5}, {Format: quant.E4M3}}
}

// drawn is what a rank brings.
func drawn(rank, n int) []float32 {
	r := rand.New(rand.NewPCG(uint64(rank), uint64(n)))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64() * math.Pow(10, float64(i%7-3)))
	}
	return x
}

// most is the largest magnitude of the row of element i.
func most(x []float64, i, row int) (m float64) {
	for _, v := range x[i/row*row : min(i/row*row+row, len(x))] {
		m = max(m, math.Abs(v))
	}
	return m
}

// bound is what package quant's comment promises of an element that is x, in a row up to m.
func bound(f quant.Format, x, m float64) float64 {
	if f == quant.Int8 {
		return max(m/127, 0x1p-126) / 2
	}
	return max(math.Abs(x)/16, max(m/448, 0x1p-126)/1024)
}

// checkSum holds what came of ranks' elements against the exact sum or average of them.
func checkSum(o quant.Options, inputs [][]float32, op tensor.ReduceOp, got []float32) error {
	row := o.RowElements()
	sum, off := make([]float64, len(got)), make([]float64, len(got))
	for _, in := range inputs {
		wide := make([]float64, len(in))
		for i, v := range in {
			wide[i] = float64(v)
		}
		for i, v := range wide {
			sum[i] += v
			off[i] += bound(o.Format, v, most(wide, i, row))
		}
	}
	worst := make([]float64, len(got)) // the sum as it may have been, at most
	for i := range sum {
		worst[i] = math.Abs(sum[i]) + off[i]
	}
	by := 1.0
	if op == tensor.Avg {
		by = float64(len(inputs))
	}
	for i, v := range got {
		limit := (off[i] + bound(o.Format, worst[i], most(worst, i, row))) / by * (1 + 1e-5)
		if diff := math.Abs(float64(v) - sum[i]/by); diff > limit {
			return fmt.Errorf("%v rows of %d: element %d is %v, exactly %v, off by %v, want at most %v",
				o.Format, row, i, v, sum[i]/by, diff, limit)
		}
	}
	return nil
}

// results collects what ranks hold. Safe for concurrent use.
type results struct {
	mu sync.Mutex

	of map[int][]float32
}

func (r *results) put(rank int, x []float32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of == nil {
		r.of = make(map[int][]float32)
	}
	r.of[rank] = x
}

// same wants that all ranks hold rank 0's bytes.
func (r *results) same(t *testing.T, ranks int) {
	t.Helper()
	for rank := range ranks {
		if !slices.Equal(bitsOf(r.of[rank]), bitsOf(r.of[0])) {
			t.Errorf("rank %d holds other bytes than rank 0", rank)
		}
	}
}

func bitsOf(x []float32) []uint32 {
	bits := make([]uint32, len(x))
	for i, v := range x {
		bits[i] = math.Float32bits(v)
	}
	return bits
}

func TestAllReduce(t *testing.T) {
	t.Parallel()
	for _, ranks := range []int{1, 2, 3, 5} {
		for _, n := range []int{0, 1, 7, 8, 41, 1000} {
			for _, o := range options() {
				for _, op := range []tensor.ReduceOp{tensor.Sum, tensor.Avg} {
					oneReduce(t, ranks, n, o, op)
				}
			}
		}
	}
}

func oneReduce(t *testing.T, ranks, n int, o quant.Options, op tensor.ReduceOp) {
	t.Helper()
	w := pgtest.MemoryWorld(t, ranks, func(b pg.Backend) pg.Backend { return b })
	var got results
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		x := drawn(rank, n)
		err := quant.AllReduce(ctx, g, tensor.Of(x), op, o)
		got.put(rank, x)
		return err
	})
	got.same(t, ranks)
	var inputs [][]float32
	for rank := range ranks {
		inputs = append(inputs, drawn(rank, n))
	}
	if err := checkSum(o, inputs, op, got.of[0]); err != nil {
		t.Errorf("%d ranks, %v: %v", ranks, op, err)
	}
}

// A row that is no number on one rank is none on any, and its neighbours are well.
func TestAllReduceNotNumbers(t *testing.T) {
	t.Parallel()
	w := pgtest.MemoryWorld(t, 3, func(b pg.Backend) pg.Backend { return b })
	for f := range quant.E4M3 + 1 {
		var got results
		w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
			x := make([]float32, 10)
			switch rank {
			case 0:
				x[1], x[8] = float32(math.NaN()), math.MaxFloat32
			case 1:
				x[5], x[8] = float32(math.Inf(-1)), math.MaxFloat32
			}
			err := quant.AllReduce(ctx, g, tensor.Of(x), tensor.Sum, quant.Options{Format: f, Row: 2})
			got.put(rank, x)
			return err
		})
		got.same(t, 3)
		for i, v := range got.of[2] {
			row := i / 2
			if isNaN, want := v != v, row == 0 || row == 2 || row == 4; isNaN != want || !isNaN && math.Float32bits(v) != 0 {
				t.Errorf("%v: element %d is %v, want NaN: %t", f, i, v, want)
			}
		}
	}
}

func TestAllReduceHalves(t *testing.T) {
	t.Parallel()
	w := pgtest.MemoryWorld(t, 2, func(b pg.Backend) pg.Backend { return b })
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		x := []tensor.F16{tensor.NewF16(127), tensor.NewF16(float32(rank))}
		y := []tensor.BF16{tensor.NewBF16(127), tensor.NewBF16(float32(rank))}
		err := errors.Join(
			quant.AllReduce(ctx, g, tensor.Of(x), tensor.Sum, quant.Options{}),
			quant.AllReduce(ctx, g, tensor.Of(y), tensor.Sum, quant.Options{}),
		)
		if x[0].Float32() != 254 || y[0].Float32() != 254 || x[1].Float32() != 2 && x[1].Float32() != 0 {
			t.Errorf("halves are %v and %v", x[0].Float32(), y[0].Float32())
		}
		return err
	})
}

func TestAllReduceRefuses(t *testing.T) {
	t.Parallel()
	w := pgtest.MemoryWorld(t, 1, func(b pg.Backend) pg.Backend { return b })
	one := tensor.Of([]float32{1})
	for _, c := range []struct {
		in   tensor.Tensor
		op   tensor.ReduceOp
		o    quant.Options
		want error
		says string
	}{
		{one, tensor.Max, quant.Options{}, pg.ErrUnsupported, "want sum or avg"},
		{tensor.Of([]float64{1}), tensor.Sum, quant.Options{}, pg.ErrUnsupported, "float64"},
		{tensor.Tensor{}, tensor.Sum, quant.Options{}, pg.ErrInvalidOp, "want contiguous"},
		{one, tensor.Sum, quant.Options{Row: -1}, pg.ErrInvalidOp, "Row = -1, want 0 to 1048576"},
		{one, tensor.Sum, quant.Options{Row: 1<<20 + 1}, pg.ErrInvalidOp, "Row = 1048577"},
		{one, tensor.Sum, quant.Options{Format: 9}, pg.ErrInvalidOp, "Format = format 9, want int8 or e4m3"},
	} {
		err := quant.AllReduce(t.Context(), w.Groups[0], c.in, c.op, c.o)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v of %v with %+v: %v, want %v that says %q", c.op, c.in, c.o, err, c.want, c.says)
		}
	}
}

// verbs check the average over those that take part, which a spare gets as well.
func verbs() map[string]managedtest.Verb {
	all := make(map[string]managedtest.Verb)
	for _, f := range []quant.Format{quant.Int8, quant.E4M3} {
		o := quant.Options{Format: f, Row: 4}
		all[f.String()] = func(ctx context.Context, g *pg.Group, rank, size int) error {
			x := drawn(rank, 50)
			if rank < 0 {
				x = slices.Repeat([]float32{float32(math.NaN())}, 50) // counts for nothing
			}
			if err := quant.AllReduce(ctx, g, tensor.Of(x), tensor.Avg, o); err != nil {
				return err
			}
			var inputs [][]float32
			for r := range size {
				inputs = append(inputs, drawn(r, 50))
			}
			return checkSum(o, inputs, tensor.Avg, x)
		}
	}
	return all
}

func TestAllReduceAmongThoseWhoTakePart(t *testing.T) {
	t.Parallel()
	managedtest.BeforeQuorum(t, verbs())
}

func TestAllReduceBeginsAnew(t *testing.T) {
	t.Parallel()
	managedtest.BeginAnew(t, verbs())
}

// counted is a backend that adds up what its ops are given.
type counted struct {
	*pg.Layer

	sent quant.Sent
}

func (c *counted) Submit(op *pg.Op) *pg.Work {
	s := quant.Sent{Ops: 1}
	for _, in := range op.In {
		s.Bytes += int64(in.NumBytes())
	}
	c.sent = c.sent.Add(s)
	return c.Unwrap().Submit(op)
}

// Sent is what the ops are really given.
func TestSent(t *testing.T) {
	t.Parallel()
	const ranks = 3
	for _, o := range options() {
		for _, n := range []int{0, 1, 24, 25, 1000} {
			var backends []*counted
			w := pgtest.MemoryWorld(t, ranks, func(b pg.Backend) pg.Backend {
				c := &counted{Layer: pg.NewLayer(b)}
				backends = append(backends, c)
				return c
			})
			for _, b := range backends {
				b.sent = quant.Sent{}
			}
			w.Each(func(ctx context.Context, _ int, g *pg.Group) error {
				return quant.AllReduce(ctx, g, tensor.Of(make([]float32, n)), tensor.Sum, o)
			})
			for r, b := range backends {
				if want := o.Sent(quant.World{Elements: n, Ranks: ranks}); b.sent != want {
					t.Errorf("%+v of %d elements: rank %d gave %+v, Sent says %+v", o, n, r, b.sent, want)
				}
			}
		}
	}
}

func BenchmarkAllReduce(b *testing.B) {
	for _, f := range []quant.Format{quant.Int8, quant.E4M3} {
		b.Run(fmt.Sprintf("format=%v/bytes=4MiB/world=1", f), func(b *testing.B) {
			w := pgtest.MemoryWorld(b, 1, func(b pg.Backend) pg.Backend { return b })
			x := drawn(0, 1<<20)
			b.ReportAllocs()
			b.SetBytes(4 << 20)
			for b.Loop() {
				if err := quant.AllReduce(b.Context(), w.Groups[0], tensor.Of(x), tensor.Avg, quant.Options{Format: f}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
