package dist_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/dist"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/dummy"
	"github.com/skerry-ft/skerry/pg/managedtest"
	"github.com/skerry-ft/skerry/tensor"
)

// verbs are those that are made of others, or fold several tensors of a rank, each with a
// check of what it gives.
var verbs = map[string]managedtest.Verb{
	"AllGatherUneven": func(ctx context.Context, g *pg.Group, rank, size int) error {
		mine := tensor.Of(slices.Repeat([]float32{float32(rank)}, rank+1))
		if rank < 0 { // what a spare has counts for nothing, whatever it is
			mine = tensor.Of(make([]int64, 100))
		}
		all, err := dist.AllGatherUneven(ctx, g, mine)
		if err != nil || len(all) != size {
			return fmt.Errorf("%d tensors, want %d: %w", len(all), size, err)
		}
		for r, x := range all {
			if err := equal(tensor.Slice[float32](x), slices.Repeat([]float32{float32(r)}, r+1)); err != nil {
				return err
			}
		}
		return nil
	},
	"InitMesh": func(ctx context.Context, g *pg.Group, rank, size int) error {
		if rank < 0 {
			_, err := dist.InitMesh(ctx, g, []dist.MeshSize{{Name: "x", Size: size}}, pg.GroupOptions{})
			if !errors.Is(err, pg.ErrInvalidOp) { // it is in no line
				return fmt.Errorf("a spare: %w, want ErrInvalidOp", err)
			}
			return nil
		}
		_, err := dist.InitMesh(ctx, g, []dist.MeshSize{{Name: "x", Size: size}}, pg.GroupOptions{})
		return err
	},
	"MonitoredBarrier": func(ctx context.Context, g *pg.Group, _, _ int) error {
		return dist.MonitoredBarrier(ctx, g, dist.MonitorOptions{})
	},
	"AllReduceMulti": func(ctx context.Context, g *pg.Group, _, _ int) error {
		ts := []tensor.Tensor{f64(1), f64(1)}
		return errors.Join(dist.AllReduceMulti(ctx, g, ts, tensor.Avg), expect("average", ts, 1, 1))
	},
	"AllReduceMultiAsync": func(ctx context.Context, g *pg.Group, _, _ int) error {
		ts := []tensor.Tensor{f64(1), f64(1)}
		return errors.Join(g.Wait(ctx, dist.AllReduceMultiAsync(g, ts, tensor.Avg)), expect("average", ts[:1], 1))
	},
	"ReduceMulti": func(ctx context.Context, g *pg.Group, rank, _ int) error {
		ts := []tensor.Tensor{f64(1), f64(3)}
		want := 3.0
		if rank == 1 {
			want = 2
		}
		return errors.Join(dist.ReduceMulti(ctx, g, ts, tensor.Avg, dist.RootTensor{Root: 1, Tensor: 1}), expect("average", ts, 1, want))
	},
	"AllGatherMulti": func(ctx context.Context, g *pg.Group, rank, size int) error {
		var lists [2][]tensor.Tensor
		var want []float64
		for i := range lists {
			for r := range size {
				lists[i] = append(lists[i], f64(untouched), f64(untouched))
				want = append(want, float64(r), float64(r)+0.5)
			}
		}
		err := dist.AllGatherMulti(ctx, g, []tensor.Tensor{f64(float64(rank)), f64(float64(rank) + 0.5)}, lists[:])
		return errors.Join(err, expect("gathered", lists[0], want...), expect("copied", lists[1], want...))
	},
	"ReduceScatterMulti": func(ctx context.Context, g *pg.Group, rank, size int) error {
		var lists [3][]tensor.Tensor
		for i := range lists {
			for r := range size {
				lists[i] = append(lists[i], f64(float64(r)))
			}
		}
		out := []tensor.Tensor{f64(untouched)}
		err := dist.ReduceScatterMulti(ctx, g, lists[:], out, tensor.Avg)
		if rank < 0 {
			return refused(err)
		}
		return errors.Join(err, expect("average", out, float64(rank)))
	},
}

func equal(got, want any) error {
	if !reflect.DeepEqual(got, want) {
		return fmt.Errorf("got %v, want %v", got, want)
	}
	return nil
}

// refused checks what a verb with a slot per rank gives a spare.
func refused(err error) error {
	if !errors.Is(err, pg.ErrNotParticipating) {
		return fmt.Errorf("a spare: %w, want ErrNotParticipating", err)
	}
	return nil
}

const untouched = -99

func f64(v float64) tensor.Tensor { return tensor.Of([]float64{v}) }

func expect(what string, ts []tensor.Tensor, want ...float64) error {
	for i, x := range ts {
		if got := tensor.Slice[float64](x)[0]; got != want[i] {
			return fmt.Errorf("%s: tensor %d is %v, want %v", what, i, got, want[i])
		}
	}
	return nil
}

// Verbs are laid out for those who take part when they run.
func TestVerbsBeforeQuorum(t *testing.T) {
	t.Parallel()
	managedtest.BeforeQuorum(t, verbs)
}

// A quorum may fall between a verb's look at it and its first op: the verb begins anew in
// the next one.
func TestVerbsBeginAnew(t *testing.T) {
	t.Parallel()
	managedtest.BeginAnew(t, map[string]managedtest.Verb{"AllGatherUneven": verbs["AllGatherUneven"], "MonitoredBarrier": verbs["MonitoredBarrier"]})
}

// A monitored barrier names those who are missing by their own ids, also when a member
// below takes no part.
func TestMonitoredBarrierNamesParticipants(t *testing.T) {
	t.Parallel()
	w, managers := managedtest.World(t, 3, 1, 2)
	errs := make(chan error, 1)
	go func() {
		errs <- dist.MonitoredBarrier(t.Context(), w.Groups[0], dist.MonitorOptions{Timeout: time.Minute})
	}()
	err := dist.MonitoredBarrier(t.Context(), w.Groups[1], dist.MonitorOptions{Timeout: 10 * time.Millisecond})
	missing, ok := errors.AsType[*dist.BarrierError](err)
	if !ok || !slices.Equal(missing.Missing, []int{1}) || !slices.Equal(missing.IDs, []string{"c"}) {
		t.Errorf("missing: %v, want rank 1 (c)", err)
	}
	if err := <-errs; !errors.Is(err, pg.ErrAborted) || len(managers[0].Reported()) != 1 {
		t.Errorf("the spare: %v, reported %v; want ErrAborted, and a report", err, managers[0].Reported())
	}
}

// What the ranks could not reduce, one does not fold: it is refused as an op is.
func TestRefusedFolds(t *testing.T) {
	t.Parallel()
	g := pg.NewGroup(dummy.New())
	if err := g.Configure(t.Context(), pg.Config{ReplicaIDs: []string{"a"}}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		dtype  tensor.DType
		reduce tensor.ReduceOp
		want   error
	}{
		{tensor.Int32, tensor.Avg, pg.ErrInvalidOp},
		{tensor.Complex64, tensor.Max, pg.ErrInvalidOp},
		{tensor.Float8E4M3, tensor.Sum, pg.ErrUnsupported},
	} {
		err := dist.AllReduceMulti(t.Context(), g, []tensor.Tensor{tensor.New(c.dtype, 2), tensor.New(c.dtype, 2)}, c.reduce)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.dtype.String()) {
			t.Errorf("%v of %v: %v, want %v", c.reduce, c.dtype, err, c.want)
		}
	}
}

// Without a group an uneven gather gives a copy of what it is given.
func TestUnevenWithoutGroup(t *testing.T) {
	t.Parallel()
	mine := []float32{1, 2}
	all, err := dist.AllGatherUneven(t.Context(), nil, tensor.Of(mine))
	if err != nil || len(all) != 1 || !slices.Equal(tensor.Slice[float32](all[0]), mine) || all[0].SameMemory(tensor.Of(mine)) {
		t.Errorf("got %v, %v; want a copy", all, err)
	}
}
