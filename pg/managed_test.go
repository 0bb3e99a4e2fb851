package pg_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/managedtest"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/tensor"
)

// TestManagedSizes: rank and size are the participants'.
func TestManagedSizes(t *testing.T) {
	w, managers := managedtest.World(t, 4, 1, 3)
	for rank, want := range []int{-1, 0, -1, 1} {
		if g := w.Groups[rank]; g.Rank() != want || g.Size() != 2 {
			t.Errorf("member %d: rank %d of %d, want %d of 2", rank, g.Rank(), g.Size(), want)
		}
	}
	managers[0].Begin()
	if g := w.Groups[0]; g.Rank() != -1 || g.Size() != 0 {
		t.Errorf("before the quorum is known: rank %d of %d, want -1 of 0", g.Rank(), g.Size())
	}
}

// TestManagedReduceOps: for every dtype and reduce op the result is that of the
// participants alone, bit for bit, on all members.
func TestManagedReduceOps(t *testing.T) {
	const worldSize, n = 4, 700
	participants := []int{1, 3}
	w, _ := managedtest.World(t, worldSize, participants...)
	draw := func(d tensor.DType, member int) tensor.Tensor {
		x := tensor.New(d, n)
		pgtest.Fill(x, uint64(member)+7)
		return x
	}
	pgtest.EachReduction(func(d tensor.DType, r pgtest.Reduction) {
		if d.IsComplex() && r.Op == tensor.Product {
			return // infinite parts: see Identity
		}
		r.Divisor = len(participants)
		var inputs [][]byte
		for _, p := range participants {
			inputs = append(inputs, draw(d, p).Bytes())
		}
		want := pgtest.Reference(d, r, inputs)
		w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
			x := draw(d, rank)
			ts := []tensor.Tensor{x}
			op := &pg.Op{Kind: pg.KindAllReduce, Reduce: r.Op, In: ts, Out: ts}
			if r.Op == tensor.PreMulSum {
				op.Factor = r.Factor
			}
			if err := g.Do(ctx, op); err != nil {
				return err
			}
			if !slices.Equal(x.Bytes(), want) {
				return fmt.Errorf("%v of %v: differs from the participants' fold", r.Op, d)
			}
			return nil
		})
	})
}

// spareWorld is a world of five of which two participate, and what a test of
// its verbs needs at one member.
type spareWorld struct {
	g     *pg.Group
	self  int // participant's rank; -1: a spare
	value float64
}

const untouched = -99

func f64(v float64) tensor.Tensor { return tensor.Of([]float64{v}) }

func twoSlots() []tensor.Tensor { return []tensor.Tensor{f64(untouched), f64(untouched)} }

func expect(what string, ts []tensor.Tensor, want ...float64) error {
	for i, x := range ts {
		if got := tensor.Slice[float64](x)[0]; got != want[i] {
			return fmt.Errorf("%s: slot %d is %v, want %v", what, i, got, want[i])
		}
	}
	return nil
}

// slotted checks a verb with a slot per rank: a spare gets ErrNotParticipating
// and its tensors stay untouched.
func (s spareWorld) slotted(what string, err error, ts []tensor.Tensor, want ...float64) error {
	if s.self >= 0 {
		return errors.Join(err, expect(what, ts, want...))
	}
	if !errors.Is(err, pg.ErrNotParticipating) {
		return fmt.Errorf("%s by a spare: %w, want ErrNotParticipating", what, err)
	}
	return expect(what, ts, untouched, untouched)
}

// atRootOne is ts at participant 1, which is the root, and nothing elsewhere.
func (s spareWorld) atRootOne(ts []tensor.Tensor) []tensor.Tensor {
	if s.self == 1 {
		return ts
	}
	return nil
}

// eachSpare runs f at every member of a world of five where 1 and 3 participate.
func eachSpare(t *testing.T, f func(ctx context.Context, s spareWorld) error) {
	t.Helper()
	participants := []int{1, 3}
	w, managers := managedtest.World(t, 5, participants...)
	w.Each(func(ctx context.Context, member int, g *pg.Group) error {
		self := slices.Index(participants, member)
		return f(ctx, spareWorld{g: g, self: self, value: float64(100 * (self + 1))})
	})
	for i, m := range managers {
		if errs := m.Reported(); len(errs) > 0 {
			t.Errorf("member %d reported %v", i, errs)
		}
	}
}

// TestManagedSpareReceives: a spare gets the results of broadcast and
// all-gather, contributes nothing to a reduce, and passes barriers.
func TestManagedSpareReceives(t *testing.T) {
	eachSpare(t, func(ctx context.Context, s spareWorld) error {
		x := f64(s.value)
		if err := errors.Join(s.g.Broadcast(ctx, x, 1), expect("broadcast", []tensor.Tensor{x}, 200)); err != nil {
			return err
		}
		out := twoSlots()
		if err := errors.Join(s.g.AllGather(ctx, f64(s.value), out), expect("all-gather", out, 100, 200)); err != nil {
			return err
		}
		x = f64(s.value)
		want := map[int]float64{-1: 0, 0: 100, 1: 300}[s.self]
		if err := errors.Join(s.g.Reduce(ctx, x, tensor.Sum, 1), expect("reduce", []tensor.Tensor{x}, want)); err != nil {
			return err
		}
		return s.g.Barrier(ctx)
	})
}

// TestManagedSlots: verbs with a slot per rank have one per participant, and
// give a spare ErrNotParticipating.
func TestManagedSlots(t *testing.T) {
	eachSpare(t, func(ctx context.Context, s spareWorld) error {
		v, self := s.value, float64(s.self)
		out := twoSlots()
		err := s.g.Gather(ctx, f64(v), s.atRootOne(out), 1)
		if s.self == 0 {
			err = errors.Join(err, expect("gather off the root", out, untouched, untouched))
		} else {
			err = s.slotted("gather", err, out, 100, 200)
		}
		if err != nil {
			return err
		}
		x := f64(untouched)
		err = s.g.Scatter(ctx, s.atRootOne([]tensor.Tensor{f64(5), f64(6)}), x, 1)
		if err := s.slotted("scatter", err, []tensor.Tensor{x}, 5+self); err != nil {
			return err
		}
		x = f64(untouched)
		err = s.g.ReduceScatter(ctx, []tensor.Tensor{f64(v + 1), f64(v + 2)}, x, tensor.Sum)
		if err := s.slotted("reduce-scatter", err, []tensor.Tensor{x}, 302+2*self); err != nil {
			return err
		}
		out = twoSlots()
		err = s.g.AllToAll(ctx, []tensor.Tensor{f64(v), f64(v + 1)}, out)
		return s.slotted("all-to-all", err, out, 100+self, 200+self)
	})
}

// TestManagedPointToPoint: peers and sources are participants' ranks; a spare
// gets ErrNotParticipating.
func TestManagedPointToPoint(t *testing.T) {
	eachSpare(t, func(ctx context.Context, s spareWorld) error {
		x, peer := f64(untouched), min(1-s.self, 1)
		sent := s.g.SendAsync(f64(s.value), pg.Envelope{Peer: peer})
		from, err := s.g.Recv(ctx, x, pg.Envelope{Peer: pg.AnySource})
		if s.self >= 0 && from != peer {
			return fmt.Errorf("received from %d, want %d", from, peer)
		}
		return errors.Join(
			s.slotted("recv", err, []tensor.Tensor{x}, float64(100*(peer+1))),
			s.slotted("send", sent.Wait(ctx), nil))
	})
}

// TestManagedReduceBeforeQuorum: who is root is not known yet when the verb is
// called.
func TestManagedReduceBeforeQuorum(t *testing.T) {
	w, managers := managedtest.World(t, 3, 0, 2)
	for _, m := range managers {
		m.Begin()
	}
	w.Each(func(ctx context.Context, member int, g *pg.Group) error {
		x := f64(float64(member + 1))
		work := g.ReduceAsync(x, tensor.Sum, 1)
		managers[member].Settle(nil)
		want := []float64{1, 2, 4}[member]
		return errors.Join(work.Wait(ctx), expect("reduce", []tensor.Tensor{x}, want))
	})
}

// TestManagedQueues: ops submitted before the quorum is known wait without
// blocking the caller, and run in order once it is.
func TestManagedQueues(t *testing.T) {
	w, managers := managedtest.World(t, 2, 0, 1)
	for _, m := range managers {
		m.Begin()
	}
	const ops = 20
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		x := []float64{1}
		var works []*pg.Work
		for i := range ops {
			works = append(works, g.AllReduceAsync(tensor.Of(x), tensor.Sum), g.BroadcastAsync(tensor.Of(x), i%2))
		}
		for i, work := range works {
			if work.Finished() {
				return fmt.Errorf("op %d is done before the quorum is known", i)
			}
		}
		managers[rank].Settle(nil)
		for _, work := range works {
			if err := work.Wait(ctx); err != nil {
				return err
			}
		}
		if x[0] != 1<<ops {
			return fmt.Errorf("chain of sums is %v, want %v", x[0], 1<<ops)
		}
		return g.AllReduce(ctx, tensor.Of(x), tensor.Sum)
	})
}

// TestManagedReports: an error goes to the manager, once an attempt has one its
// ops complete at once untouched, and the next attempt is clean.
func TestManagedReports(t *testing.T) {
	w, managers := managedtest.World(t, 2, 0, 1)
	cause := errors.New("link cut")
	x := []float32{42}
	pending := w.Groups[0].AllReduceAsync(tensor.Of(x), tensor.Sum)
	w.Groups[1].Abort(cause)
	if err := pending.Wait(t.Context()); err != nil {
		t.Errorf("failed op: %v, want no error", err)
	}
	errs := managers[0].Reported()
	if len(errs) != 1 || !errors.Is(errs[0], pg.ErrAborted) {
		t.Fatalf("reported %v, want one ErrAborted", errs)
	}
	if err := w.Groups[0].AllReduce(t.Context(), tensor.Of(x), tensor.Sum); err != nil || x[0] != 42 {
		t.Errorf("op after an error: %v, tensor %v; want nil and untouched", err, x)
	}
	if got := managers[0].Reported(); len(got) != 1 {
		t.Errorf("reported %v, want the first error only", got)
	}
	for _, m := range managers {
		m.Begin()
		m.Settle(nil)
	}
	w.Configure(w.Members...)
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		x := []float32{1}
		if err := g.AllReduce(ctx, tensor.Of(x), tensor.Sum); err != nil || x[0] != 2 {
			return fmt.Errorf("sum is %v: %w", x, err)
		}
		return nil
	})
	if errs := managers[0].Reported(); len(errs) > 0 {
		t.Errorf("next attempt reported %v", errs)
	}
}

// TestManagedNoQuorum: if there will be no quorum, what waits for it completes
// and the error is reported; if the attempt is over, nothing is.
func TestManagedNoQuorum(t *testing.T) {
	w, managers := managedtest.World(t, 1, 0)
	m, g := managers[0], w.Groups[0]
	x := tensor.Of([]float32{1})
	m.Begin()
	work := g.AllReduceAsync(x, tensor.Sum)
	unreachable := errors.New("lighthouse unreachable")
	m.Settle(unreachable)
	if err := work.Wait(t.Context()); err != nil {
		t.Errorf("op without a quorum: %v, want no error", err)
	}
	if errs := m.Reported(); len(errs) != 1 || !errors.Is(errs[0], unreachable) {
		t.Errorf("reported %v, want %v", errs, unreachable)
	}
	m.Begin()
	work = g.AllReduceAsync(x, tensor.Sum)
	m.Begin()
	m.Settle(nil)
	if err := work.Wait(t.Context()); err != nil {
		t.Errorf("op of an attempt that is over: %v, want no error", err)
	}
	if errs := m.Reported(); len(errs) != 0 {
		t.Errorf("new attempt has %v of the old one", errs)
	}
}

// TestManagedCancel: a blocking verb that waits for the quorum ends with its
// context, and its attempt with it; those queued behind it go on.
func TestManagedCancel(t *testing.T) {
	w, managers := managedtest.World(t, 1, 0)
	m, g := managers[0], w.Groups[0]
	m.Begin()
	cause := errors.New("no patience")
	ctx, cancel := context.WithCancelCause(t.Context())
	head := g.AllReduceAsync(tensor.Of([]float32{1}), tensor.Sum)
	cancel(cause)
	if err := g.AllReduce(ctx, tensor.Of([]float32{1}), tensor.Sum); !errors.Is(err, cause) {
		t.Errorf("verb in the queue: %v, want %v", err, cause)
	}
	if errs := m.Reported(); len(errs) != 1 || !errors.Is(errs[0], cause) {
		t.Errorf("reported %v, want %v", errs, cause)
	}
	m.Settle(nil)
	if err := head.Wait(t.Context()); err != nil {
		t.Errorf("op at the head: %v", err)
	}
	m.Begin()
	if err := g.AllReduce(ctx, tensor.Of([]float32{1}), tensor.Sum); !errors.Is(err, cause) {
		t.Errorf("verb at the head of the queue: %v, want %v", err, cause)
	}
}

// TestManagedClose: Close fails what is queued and what comes later.
func TestManagedClose(t *testing.T) {
	w, managers := managedtest.World(t, 1, 0)
	managers[0].Begin()
	g := w.Groups[0]
	first, second := g.BarrierAsync(), g.BarrierAsync()
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	for _, work := range []*pg.Work{first, second, g.BarrierAsync()} {
		if err := work.Wait(t.Context()); !errors.Is(err, pg.ErrClosed) {
			t.Errorf("op of a closed group: %v, want ErrClosed", err)
		}
	}
}

// TestManagedCallersFaults: what the caller did wrong comes back and is not
// reported.
func TestManagedCallersFaults(t *testing.T) {
	w, managers := managedtest.World(t, 3, 0, 1)
	x := tensor.Of([]float32{1})
	for name, op := range map[string]*pg.Op{
		"integer mean": {Kind: pg.KindAllReduce, Reduce: tensor.Avg, In: []tensor.Tensor{tensor.Of([]int32{1})}, Out: []tensor.Tensor{tensor.Of([]int32{1})}},
		"root":         {Kind: pg.KindBroadcast, Root: 2, In: []tensor.Tensor{x}, Out: []tensor.Tensor{x}}, // a member, but no participant
		"slots":        {Kind: pg.KindAllGather, In: []tensor.Tensor{x}, Out: []tensor.Tensor{x, x, x}},
	} {
		for member, g := range w.Groups {
			if err := g.Do(t.Context(), op); !errors.Is(err, pg.ErrInvalidOp) {
				t.Errorf("%s by member %d: %v, want ErrInvalidOp", name, member, err)
			}
		}
	}
	for i, m := range managers {
		if errs := m.Reported(); len(errs) > 0 {
			t.Errorf("member %d reported %v", i, errs)
		}
	}
}

// TestManagedBallots: ballots are over all members, whoever participates, and
// their errors come back.
func TestManagedBallots(t *testing.T) {
	w, managers := managedtest.World(t, 3, 1)
	w.Each(func(ctx context.Context, member int, g *pg.Group) error {
		op := &pg.Op{Kind: pg.KindBallot, Ballot: []byte{byte(member)}}
		if err := g.Do(ctx, op); err != nil {
			return err
		}
		for from, e := range op.Ballots {
			if !e.Here || !slices.Equal(e.Payload, []byte{byte(from)}) {
				return fmt.Errorf("ballots are %+v", op.Ballots)
			}
		}
		return nil
	})
	cause := errors.New("cut")
	w.Groups[0].Abort(cause)
	if err := w.Groups[0].Do(t.Context(), &pg.Op{Kind: pg.KindBallot}); !errors.Is(err, cause) {
		t.Errorf("ballot of a broken group: %v, want %v", err, cause)
	}
	if errs := managers[0].Reported(); len(errs) > 0 {
		t.Errorf("reported %v", errs)
	}
}
