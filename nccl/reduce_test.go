package nccl

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/tensor"
)

// world makes n configured members with the backends' buffers on the device.
func world(t testing.TB, f *fakes, n int) *pgtest.World {
	t.Helper()
	w := pgtest.NewWorld(t, pgtest.StartStore(t))
	members := make([]pgtest.Member, n)
	for i := range members {
		members[i] = w.Join(fmt.Sprintf("replica-%d", i), newBackend(t, f, 0))
	}
	w.Configure(members...)
	return w
}

// onDevice copies a host tensor.
func onDevice(t testing.TB, b pg.Backend, host tensor.Tensor) tensor.Tensor {
	t.Helper()
	return onDeviceOf(t, b.(*Backend).opt.Device, host)
}

func onHost(t testing.TB, x tensor.Tensor) tensor.Tensor {
	t.Helper()
	host := tensor.New(x.DType(), x.Len())
	mem, offset := x.Memory()
	if err := mem.CopyToHost(host.Bytes(), offset); err != nil {
		t.Fatal(err)
	}
	return host
}

// Every reduce op that NCCL has, over every dtype, through all-reduce, reduce
// and reduce-scatter, to within its rounding; and ErrUnsupported for the others.
func TestReductions(t *testing.T) {
	t.Parallel()
	f := open(t)
	const n = 3
	w := world(t, f, n)
	for _, dtype := range tensor.DTypes() {
		for op := tensor.Sum; op <= tensor.PreMulSum; op++ {
			t.Run(fmt.Sprint(dtype, "/", op), func(t *testing.T) {
				_, _, factor, err := reduced(tensor.New(dtype, 1), op, 2, n, 2)
				if err == nil && dtype.Reduces(op) == nil && (factor == 1 || isFloat(dtype)) {
					reduceEverywhere(t, w, dtype, op)
					return
				}
				x := onDevice(t, w.Members[0].Backend, tensor.New(dtype, 4))
				work := w.Groups[0].Submit(&pg.Op{
					Kind: pg.KindAllReduce, In: []tensor.Tensor{x}, Out: []tensor.Tensor{x}, Reduce: op, Divisor: 2, Factor: 2,
				})
				<-work.Done()
				if err := work.Err(); !errors.Is(err, pg.ErrUnsupported) && !errors.Is(err, pg.ErrInvalidOp) {
					t.Errorf("got %v, want ErrUnsupported or ErrInvalidOp", err)
				}
			})
		}
	}
}

func isFloat(d tensor.DType) bool {
	return slices.Contains([]tensor.DType{tensor.Float16, tensor.BFloat16, tensor.Float32, tensor.Float64}, d)
}

// reduceEverywhere compares with pg's own reduction.
func reduceEverywhere(t *testing.T, w *pgtest.World, dtype tensor.DType, op tensor.ReduceOp) {
	const perRank = 5
	n := len(w.Groups)
	count := perRank * n
	inputs, devices := make([]tensor.Tensor, n), make([]tensor.Tensor, n)
	bytes := make([][]byte, n)
	for r := range inputs {
		inputs[r] = small(dtype, count, r)
		devices[r], bytes[r] = onDevice(t, w.Members[r].Backend, inputs[r]), inputs[r].Bytes()
	}
	want := tensor.New(dtype, count)
	if err := tensor.Reduce(want.Bytes(), bytes, dtype, op, 2, 2); err != nil {
		t.Fatal(err)
	}
	run := func(kind pg.Kind, in func(r int) []tensor.Tensor, out func(r int) []tensor.Tensor) {
		t.Helper()
		w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
			return g.Do(ctx, &pg.Op{Kind: kind, In: in(rank), Out: out(rank), Reduce: op, Divisor: 2, Factor: 2, Root: 1})
		})
	}
	parts := func(x tensor.Tensor) (all []tensor.Tensor) {
		for r := range n {
			all = append(all, x.Slice(r*perRank, (r+1)*perRank))
		}
		return all
	}
	results := make([]tensor.Tensor, n)
	for r := range results {
		results[r] = onDevice(t, w.Members[r].Backend, tensor.New(dtype, count))
	}
	run(pg.KindReduceScatter, func(r int) []tensor.Tensor { return parts(devices[r]) },
		func(r int) []tensor.Tensor { return []tensor.Tensor{results[r].Slice(0, perRank)} })
	for r := range n {
		near(t, "reduce-scatter", onHost(t, results[r].Slice(0, perRank)), want.Slice(r*perRank, (r+1)*perRank))
	}
	run(pg.KindReduce, func(r int) []tensor.Tensor { return devices[r : r+1] }, func(r int) []tensor.Tensor {
		if r == 1 {
			return results[r : r+1]
		}
		return nil
	})
	near(t, "reduce", onHost(t, results[1]), want)
	run(pg.KindAllReduce, func(r int) []tensor.Tensor { return devices[r : r+1] }, func(r int) []tensor.Tensor { return devices[r : r+1] })
	for r := range n {
		near(t, "all-reduce", onHost(t, devices[r]), want)
	}
}

// small makes values whose sums and products every dtype can hold.
func small(dtype tensor.DType, count, seed int) tensor.Tensor {
	x := tensor.New(dtype, count)
	for i := range count {
		v := float64(1 + (i+seed)%3)
		switch dtype {
		case tensor.Float16:
			tensor.Slice[tensor.F16](x)[i] = tensor.NewF16(float32(v))
		case tensor.BFloat16:
			tensor.Slice[tensor.BF16](x)[i] = tensor.NewBF16(float32(v))
		case tensor.Float32:
			tensor.Slice[float32](x)[i] = float32(v) + 0.25
		case tensor.Float64:
			tensor.Slice[float64](x)[i] = v + 0.25
		case tensor.Complex64:
			tensor.Slice[complex64](x)[i] = complex(float32(v), -1)
		case tensor.Complex128:
			tensor.Slice[complex128](x)[i] = complex(v, -1)
		default:
			x.Bytes()[i*dtype.Size()] = byte(v) // little-endian
		}
	}
	return x
}

func near(t *testing.T, what string, got, want tensor.Tensor) {
	t.Helper()
	switch got.DType() {
	case tensor.Float32:
		for i, v := range tensor.Slice[float32](got) {
			if w := tensor.Slice[float32](want)[i]; math.Abs(float64(v-w)) > 1e-5*math.Abs(float64(w)) {
				t.Fatalf("%s: element %d is %v, want %v", what, i, v, w)
			}
		}
	case tensor.Float64:
		for i, v := range tensor.Slice[float64](got) {
			if w := tensor.Slice[float64](want)[i]; math.Abs(v-w) > 1e-12*math.Abs(w) {
				t.Fatalf("%s: element %d is %v, want %v", what, i, v, w)
			}
		}
	default:
		if !slices.Equal(got.Bytes(), want.Bytes()) {
			t.Fatalf("%s of %v: %x, want %x", what, got.DType(), got.Bytes(), want.Bytes())
		}
	}
}

// Messages reach the rank they are for, in order; both directions at once in a
// batch; tags and AnySource are refused.
func TestPointToPoint(t *testing.T) {
	f := open(t)
	w := world(t, f, 2)
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		b, peer := w.Members[rank].Backend, 1-rank
		for i := range 4 {
			out := onDevice(t, b, tensor.Of([]int32{int32(100*rank + i)}))
			in := onDevice(t, b, tensor.Of([]int32{-1}))
			batch := &pg.Op{Kind: pg.KindBatch, Batch: []*pg.Op{
				{Kind: pg.KindSend, Peer: peer, In: []tensor.Tensor{out}},
				{Kind: pg.KindRecv, Peer: peer, Out: []tensor.Tensor{in}},
			}}
			if err := g.Do(ctx, batch); err != nil {
				return err
			}
			if got := tensor.Slice[int32](onHost(t, in))[0]; got != int32(100*peer+i) {
				return fmt.Errorf("message %d is %d, want %d", i, got, 100*peer+i)
			}
		}
		x := onDevice(t, b, tensor.Of([]int32{0}))
		for _, op := range []*pg.Op{
			{Kind: pg.KindSend, Peer: peer, Tag: 3, In: []tensor.Tensor{x}},
			{Kind: pg.KindRecv, Peer: pg.AnySource, Out: []tensor.Tensor{x}},
		} {
			if err := g.Do(ctx, op); !errors.Is(err, pg.ErrUnsupported) {
				return fmt.Errorf("%v tag %d peer %d: %w, want ErrUnsupported", op.Kind, op.Tag, op.Peer, err)
			}
		}
		return nil
	})
}

// Ops on one tensor follow one another on the device, and a user's stream waits
// for them without the host.
func TestChained(t *testing.T) {
	f := open(t)
	w := world(t, f, 2)
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		b := w.Members[rank].Backend.(*Backend)
		x := onDevice(t, b, tensor.Of([]float64{float64(rank + 1)}))
		var works []*pg.Work
		for range 10 {
			works = append(works, g.AllReduceAsync(x, tensor.Sum))
		}
		mem, _ := x.Memory()
		host := make([]byte, 8)
		err := b.opt.Device.Do(func() error {
			d := b.opt.Device.driver
			s, err := d.NewStream(false)
			if err != nil {
				return err
			}
			if err := b.WaitStream(ctx, s); err != nil {
				return err
			}
			if err := d.CopyOut(host, Pointer(mem.Address()), s); err != nil {
				return err
			}
			return d.DestroyStream(s)
		})
		if err != nil {
			return err
		}
		y, err := tensor.FromBytes(tensor.Float64, host, 1)
		if err != nil {
			return err
		}
		if got, want := tensor.Slice[float64](y)[0], 3*math.Pow(2, 9); got != want {
			return fmt.Errorf("the stream saw %v, want %v", got, want)
		}
		for _, work := range works {
			if err := work.Wait(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

// An abort may come at any moment, from any goroutine and several ranks; every
// op ends, and the next epoch works.
func TestAbortStress(t *testing.T) {
	f := open(t)
	const n, epochs = 3, 10
	w := world(t, f, n)
	random := rand.New(rand.NewPCG(1, 2))
	for epoch := range epochs {
		var works []*pg.Work
		for rank, g := range w.Groups {
			x := onDevice(t, w.Members[rank].Backend, tensor.New(tensor.Float32, 10_000))
			for range 20 {
				works = append(works, g.AllReduceAsync(x, tensor.Sum))
			}
		}
		delay := time.NewTimer(time.Duration(random.Int64N(int64(2 * time.Millisecond))))
		<-delay.C
		var aborts sync.WaitGroup
		for rank := range 1 + epoch%n {
			aborts.Go(func() { w.Groups[rank].Abort(fmt.Errorf("rank %d ends epoch %d", rank, epoch)) })
		}
		aborts.Wait()
		bound, cancel := context.WithTimeout(context.Background(), pgtest.Bound)
		for i, work := range works {
			if work.Wait(bound); bound.Err() != nil { //nolint:errcheck // any end will do
				t.Fatalf("epoch %d: op %d has not ended", epoch, i)
			}
		}
		cancel()
		w.Configure(w.Members...)
	}
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		x := onDevice(t, w.Members[rank].Backend, tensor.Of([]int32{1}))
		if err := g.AllReduce(ctx, x, tensor.Sum); err != nil {
			return err
		}
		if got := tensor.Slice[int32](onHost(t, x))[0]; got != n {
			return fmt.Errorf("sum is %d, want %d", got, n)
		}
		return nil
	})
}
