package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/managedtest"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/tensor"
	"github.com/skerry-ft/skerry/train/metrics"
)

func equal(what string, got, want any) error {
	if !reflect.DeepEqual(got, want) {
		return fmt.Errorf("%s: got %v, want %v", what, got, want)
	}
	return nil
}

// verbs are those of this package, each with a check of what it gives.
var verbs = map[string]managedtest.Verb{
	"Sync": func(ctx context.Context, g *pg.Group, rank, size int) error {
		mean, whole := []float64{float64(rank), 4}, []int32{int32(2*rank + 1), -3}
		if rank < 0 { // what a spare has counts for nothing
			mean, whole = []float64{math.NaN(), 7}, []int32{1000, 1000}
		}
		err := errors.Join(metrics.Sync(ctx, g, tensor.Of(mean), tensor.Avg), metrics.Sync(ctx, g, tensor.Of(whole), tensor.Avg))
		return errors.Join(err, equal("mean", mean, []float64{float64(size-1) / 2, 4}),
			equal("mean of integers", whole, []int32{int32(size), -3}))
	},
	"SyncNumber": func(ctx context.Context, g *pg.Group, rank, size int) error {
		top, err := metrics.SyncNumber(ctx, g, int64(rank), tensor.Max)
		return errors.Join(err, equal("max", top, int64(size-1)))
	},
	"AllGather": func(ctx context.Context, g *pg.Group, rank, size int) error {
		in, err := tensor.Of([]float32{float32(rank), 1, 2, 3}).Reshape(2, 2)
		if err != nil {
			return err
		}
		all, err := metrics.AllGather(ctx, g, in)
		if err != nil {
			return err
		}
		var want []float32
		for r := range size {
			want = append(want, float32(r), 1, 2, 3)
		}
		return errors.Join(equal("shape", all.Shape(), []int{size, 2, 2}), equal("all", tensor.Slice[float32](all), want))
	},
	"AllGatherGrad": func(ctx context.Context, g *pg.Group, rank, size int) error {
		pass, err := metrics.AllGatherGrad(ctx, g, tensor.Of([]float64{float64(rank)}))
		if err != nil {
			return err
		}
		// The loss of rank r is the sum over all s of (r+1)·(s+1)·x(s).
		grad := make([]float64, size)
		for s := range grad {
			grad[s] = float64((rank + 1) * (s + 1))
		}
		mine, err := pass.Backward(ctx, tensor.Of(grad))
		if err != nil {
			return err
		}
		want := float64(rank+1) * float64(size*(size+1)) / 2
		if rank < 0 {
			want = 0
		}
		return equal("gradient", tensor.Slice[float64](mine), []float64{want})
	},
}

// The verbs are laid out for those who take part when they run, spares included.
func TestVerbsBeforeQuorum(t *testing.T) {
	t.Parallel()
	managedtest.BeforeQuorum(t, verbs)
}

// So they are in a plain group of any size.
func TestVerbs(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 2, 5} {
		w := pgtest.MemoryWorld(t, size, nil)
		for name, verb := range verbs {
			w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
				if err := verb(ctx, g, rank, size); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				return nil
			})
		}
	}
}

// Without a group each gives what a world of one gives.
func TestWithoutGroup(t *testing.T) {
	t.Parallel()
	for name, verb := range verbs {
		if err := verb(t.Context(), nil, 0, 1); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A mean of integers divides each type towards zero, whatever the number of ranks.
func TestMeanOfIntegers(t *testing.T) {
	t.Parallel()
	const size = 3
	pgtest.MemoryWorld(t, size, nil).Each(func(ctx context.Context, rank int, g *pg.Group) error {
		return errors.Join(
			meanOf(ctx, g, []int8{-1, -2, 1}[rank], 0), meanOf(ctx, g, []int16{-1, -2, -1}[rank], -1),
			meanOf(ctx, g, []int32{-5, -5, -5}[rank], -5), meanOf(ctx, g, []int64{math.MinInt64 + 2, 0, 0}[rank], (math.MinInt64+2)/3),
			meanOf(ctx, g, []uint8{200, 50, 3}[rank], 84), meanOf(ctx, g, []uint16{1, 1, 0}[rank], 0),
			meanOf(ctx, g, []uint32{math.MaxUint32, 0, 0}[rank], math.MaxUint32/3), meanOf(ctx, g, []uint64{math.MaxUint64, 0, 0}[rank], math.MaxUint64/3),
		)
	})
}

func meanOf[T tensor.Element](ctx context.Context, g *pg.Group, v, want T) error {
	got, err := metrics.SyncNumber(ctx, g, v, tensor.Avg)
	return errors.Join(err, equal(fmt.Sprintf("mean of %T", v), got, want))
}

// What does not go together is refused, among others as alone, and breaks nothing.
func TestRefused(t *testing.T) {
	t.Parallel()
	check := func(ctx context.Context, g *pg.Group) error {
		transposed, err := tensor.New(tensor.Float32, 6).AsStrided([]int{3, 2}, []int{1, 3})
		if err != nil {
			return err
		}
		_, noShape := metrics.AllGather(ctx, g, tensor.Tensor{})
		_, strided := metrics.AllGatherGrad(ctx, g, transposed)
		pass, err := metrics.AllGatherGrad(ctx, g, tensor.New(tensor.Float32, 2))
		if err != nil {
			return err
		}
		_, short := pass.Backward(ctx, tensor.New(tensor.Float32, 1))
		_, other := pass.Backward(ctx, tensor.New(tensor.Float64, pass.Out.Shape()...))
		flags, err := metrics.AllGatherGrad(ctx, g, tensor.New(tensor.Bool, 2))
		if err != nil {
			return err
		}
		_, sumOfFlags := flags.Backward(ctx, tensor.New(tensor.Bool, flags.Out.Shape()...))
		for what, err := range map[string]error{
			"premul-sum": metrics.Sync(ctx, g, tensor.New(tensor.Float32, 1), tensor.PreMulSum),
			"bits":       metrics.Sync(ctx, g, tensor.New(tensor.Float32, 1), tensor.BAnd),
			"mean":       metrics.Sync(ctx, g, tensor.New(tensor.Bool, 1), tensor.Avg),
			"no tensor":  metrics.Sync(ctx, g, tensor.Tensor{}, tensor.Sum),
			"no shape":   noShape, "strides": strided, "short": short, "other dtype": other, "flags": sumOfFlags,
		} {
			if !errors.Is(err, pg.ErrInvalidOp) {
				return fmt.Errorf("%s: %w, want ErrInvalidOp", what, err)
			}
		}
		return nil
	}
	if err := check(t.Context(), nil); err != nil {
		t.Errorf("without a group: %v", err)
	}
	pgtest.MemoryWorld(t, 2, nil).Each(func(ctx context.Context, _ int, g *pg.Group) error {
		return errors.Join(check(ctx, g), g.Barrier(ctx))
	})
}

// A backward pass among others than its forward pass had is an error, not a wrong sum.
func TestBackwardAmongOthers(t *testing.T) {
	t.Parallel()
	w, managers := managedtest.World(t, 3, 0, 1, 2)
	passes := make([]*metrics.GatherPass, 3)
	w.Each(func(ctx context.Context, rank int, g *pg.Group) (err error) {
		passes[rank], err = metrics.AllGatherGrad(ctx, g, tensor.New(tensor.Float32, 1))
		return err
	})
	for _, m := range managers {
		m.Choose(0, 1)
		m.Begin()
		m.Settle(nil)
	}
	w.Each(func(ctx context.Context, rank int, _ *pg.Group) error {
		if _, err := passes[rank].Backward(ctx, tensor.Of(slices.Repeat([]float32{1}, 3))); !errors.Is(err, pg.ErrAborted) {
			return fmt.Errorf("got %w, want ErrAborted", err)
		}
		return nil
	})
}

// So is one among as many others: in another quorum, or of other members in the same one. The ranks
// that wait for it learn of that.
func TestBackwardAmongAsManyOthers(t *testing.T) {
	t.Parallel()
	network, w := pgtest.NewMemory(), pgtest.NewWorld(t, t.Name())
	a, b, c := w.Join("a", network.Backend()), w.Join("b", network.Backend()), w.Join("c", network.Backend())
	w.Configure(a, b)
	var pass *metrics.GatherPass
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		p, err := metrics.AllGatherGrad(ctx, g, tensor.Of([]float32{float32(rank)}))
		if rank == 0 {
			pass = p
		}
		return err
	})
	w.Configure(a, c)
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		ones := tensor.Of([]float32{1, 1})
		if rank == 0 {
			_, err := pass.Backward(ctx, ones)
			return wantAborted(err)
		}
		return wantAborted(g.ReduceScatterTensor(ctx, ones, tensor.Of([]float32{0}), tensor.Sum))
	})
	m, managers := managedtest.World(t, 3, 0, 1)
	m.Each(func(ctx context.Context, rank int, g *pg.Group) (err error) {
		p, err := metrics.AllGatherGrad(ctx, g, tensor.Of([]float32{float32(rank)}))
		if rank == 0 {
			pass = p
		}
		return err
	})
	for _, m := range managers {
		m.Choose(0, 2)
		m.Begin()
		m.Settle(nil)
	}
	_, err := pass.Backward(t.Context(), tensor.Of([]float32{1, 1}))
	if err := wantAborted(err); err != nil || len(managers[0].Reported()) != 1 {
		t.Errorf("among other members: %v, reported %v, want one error", err, managers[0].Reported())
	}
}

func wantAborted(err error) error {
	if !errors.Is(err, pg.ErrAborted) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("got %w, want ErrAborted before the deadline", err)
	}
	return nil
}

// A step that is discarded gives an error, not a number.
func TestDiscarded(t *testing.T) {
	t.Parallel()
	w, managers := managedtest.World(t, 2, 0, 1)
	for _, m := range managers {
		m.ReportError(m.Attempt(), errors.New("a bad batch"))
	}
	w.Each(func(ctx context.Context, _ int, g *pg.Group) error {
		if _, err := metrics.SyncNumber(ctx, g, 1.5, tensor.Sum); !errors.Is(err, pg.ErrAborted) {
			return fmt.Errorf("got %w, want ErrAborted", err)
		}
		return nil
	})
}
