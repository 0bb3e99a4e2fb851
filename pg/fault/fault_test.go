package fault_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/fault"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/tensor"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestConforms: without faults an Injector is not there.
func TestConforms(t *testing.T) {
	h := pgtest.MemoryHarness(func(b pg.Backend) pg.Backend { return fault.NewInjector(b) })
	h.DTypes = []tensor.DType{tensor.Float32, tensor.Int64} // the backend's own test has them all
	pgtest.RunWith(t, h)
}

func faultyWorld(t *testing.T, n int) (*pgtest.World, []*fault.Injector) {
	t.Helper()
	var injectors []*fault.Injector
	w := pgtest.MemoryWorld(t, n, func(b pg.Backend) pg.Backend {
		f := fault.NewInjector(b)
		injectors = append(injectors, f)
		return f
	})
	return w, injectors
}

// TestFails: the n-th op of the kind fails, its peers' with it, and not
// the ones before; Configure disarms.
func TestFails(t *testing.T) {
	w, injectors := faultyWorld(t, 2)
	injected := errors.New("injected")
	injectors[1].Inject(fault.Fault{Kind: pg.KindBroadcast, Nth: 2, Err: injected})
	one := func(ctx context.Context, rank int, g *pg.Group) error {
		return errors.Join(g.Barrier(ctx), g.Broadcast(ctx, tensor.Of([]float32{1}), 0))
	}
	w.Each(one)
	if n := injectors[1].Fired(); n != 0 {
		t.Errorf("%d faults have hit, want none yet", n)
	}
	errs := make([]error, 2)
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		errs[rank] = one(ctx, rank, g)
		return nil
	})
	if !errors.Is(errs[1], injected) || !errors.Is(errs[0], pg.ErrAborted) {
		t.Errorf("errors are %v, want the injected one at rank 1, and ErrAborted at rank 0", errs)
	}
	injectors[0].Inject(fault.Fault{Err: injected})
	w.Configure(w.Members...)
	w.Each(one)
}

// TestFailsLate: the op succeeds on the peers, and fails here afterwards.
func TestFailsLate(t *testing.T) {
	w, injectors := faultyWorld(t, 2)
	injected := errors.New("injected")
	injectors[0].Inject(fault.Fault{Kind: pg.KindAllReduce, Err: injected, Late: true})
	errs := make([]error, 2)
	x := [][]float32{{1}, {1}}
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		errs[rank] = g.AllReduce(ctx, tensor.Of(x[rank]), tensor.Sum)
		return nil
	})
	if !errors.Is(errs[0], injected) || errs[1] != nil || x[1][0] != 2 {
		t.Errorf("errors are %v, sums %v; want it to fail at rank 0 only", errs, x)
	}
	if err := w.Groups[0].Barrier(t.Context()); !errors.Is(err, pg.ErrAborted) || !errors.Is(err, injected) {
		t.Errorf("next op: %v, want ErrAborted joined with the injected one", err)
	}
}

// TestCorrupts flips one bit on one rank, of an output or a payload.
func TestCorrupts(t *testing.T) {
	w, injectors := faultyWorld(t, 2)
	injectors[1].Inject(fault.Fault{Corrupt: true}, fault.Fault{Kind: pg.KindBallot, Corrupt: true})
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		x := []uint8{4}
		if err := g.AllReduce(ctx, tensor.Of(x), tensor.Sum); err != nil || x[0] != uint8(8+rank) {
			t.Errorf("rank %d: sum %v, %v; want %d", rank, x, err, 8+rank)
		}
		mine := []byte{2}
		op := &pg.Op{Kind: pg.KindBallot, Ballot: mine}
		if err := g.Do(ctx, op); err != nil || op.Ballots[1].Payload[0] != 3 || op.Ballots[0].Payload[0] != 2 || mine[0] != 2 {
			t.Errorf("rank %d: ballots %v, own %v, %v", rank, op.Ballots, mine, err)
		}
		return nil
	})
}

// TestDelays holds one op and those behind it, keeps their order, and lets
// them go when the group is aborted.
func TestDelays(t *testing.T) {
	w, injectors := faultyWorld(t, 2)
	const delay = 50 * time.Millisecond
	injectors[0].Inject(fault.Fault{Kind: pg.KindAllReduce, Delay: delay})
	start := time.Now()
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		x := []float32{1}
		works := []*pg.Work{g.AllReduceAsync(tensor.Of(x), tensor.Sum), g.BroadcastAsync(tensor.Of(x), 0), g.AllReduceAsync(tensor.Of(x), tensor.Sum)}
		for _, work := range works {
			if err := work.Wait(ctx); err != nil {
				return err
			}
		}
		if x[0] != 4 {
			t.Errorf("chained sums are %v, want 4", x)
		}
		return nil
	})
	if took := time.Since(start); took < delay {
		t.Errorf("delayed op took %v, want at least %v", took, delay)
	}
	cause := errors.New("cut")
	injectors[0].Inject(fault.Fault{Delay: time.Hour}, fault.Fault{Nth: 2, Delay: time.Hour})
	work := w.Groups[0].BarrierAsync()
	w.Groups[0].Abort(cause)
	if err := work.Wait(t.Context()); !errors.Is(err, cause) {
		t.Errorf("delayed op of an aborted group: %v, want %v", err, cause)
	}
}

// TestDelayEnds: a delayed op ends with its caller's context, and with
// Close.
func TestDelayEnds(t *testing.T) {
	w, injectors := faultyWorld(t, 2)
	injectors[0].Inject(fault.Fault{Delay: time.Hour})
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := w.Groups[0].Barrier(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("delayed verb: %v, want DeadlineExceeded", err)
	}
	if !w.Groups[1].Errored() {
		t.Error("the peer waits for an op that will never be")
	}
	w.Configure(w.Members...)
	injectors[1].Inject(fault.Fault{Delay: time.Hour})
	first, second := w.Groups[1].BarrierAsync(), w.Groups[1].BarrierAsync()
	if err := w.Groups[1].Close(); err != nil {
		t.Fatal(err)
	}
	for _, work := range []*pg.Work{first, second} {
		if err := work.Wait(t.Context()); !errors.Is(err, pg.ErrClosed) {
			t.Errorf("delayed op of a closed group: %v, want ErrClosed", err)
		}
	}
}
