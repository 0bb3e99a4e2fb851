package pg_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// composedVerbs are the verbs that are made of others, or fold several tensors of a rank,
// each with a check of what it gives at a participant, by its rank among size.
var composedVerbs = map[string]func(ctx context.Context, g *pg.Group, rank, size int) error{
	"AllGatherObjects": func(ctx context.Context, g *pg.Group, rank, size int) error {
		got, err := g.AllGatherObjects(ctx, objectOf(rank))
		return errors.Join(err, equal(got, objectsOf(size)))
	},
	"GatherObjects": func(ctx context.Context, g *pg.Group, rank, size int) error {
		got, err := g.GatherObjects(ctx, objectOf(rank), 1)
		switch {
		case rank < 0:
			return refused(err)
		case rank == 1:
			return errors.Join(err, equal(got, objectsOf(size)))
		}
		return errors.Join(err, equal(got, []any(nil)))
	},
	"BroadcastObjects": func(ctx context.Context, g *pg.Group, rank, _ int) error {
		list := []any{rank, "mine"}
		if rank == 1 {
			list = []any{"root's", 1.5}
		}
		return errors.Join(g.BroadcastObjects(ctx, list, 1), equal(list, []any{"root's", 1.5}))
	},
	"ScatterObjects": func(ctx context.Context, g *pg.Group, rank, size int) error {
		var list []any
		if rank == 1 {
			list = objectsOf(size)
		}
		got, err := g.ScatterObjects(ctx, list, 1)
		if rank < 0 {
			return refused(err)
		}
		return errors.Join(err, equal(got, objectOf(rank)))
	},
	"AllGatherUneven": func(ctx context.Context, g *pg.Group, rank, size int) error {
		mine := tensor.Of(slices.Repeat([]float32{float32(rank)}, rank+1))
		if rank < 0 { // what a spare has counts for nothing, whatever it is
			mine = tensor.Of(make([]int64, 100))
		}
		all, err := g.AllGatherUneven(ctx, mine)
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
	"NewGroup": func(ctx context.Context, g *pg.Group, rank, size int) error {
		return newGroup(ctx, g, rank, size, pg.GroupOptions{})
	},
	"NewGroup local": func(ctx context.Context, g *pg.Group, rank, size int) error {
		if rank < 0 {
			return nil
		}
		return newGroup(ctx, g, rank, size, pg.GroupOptions{LocalSync: true})
	},
	"NewSubgroups": func(ctx context.Context, g *pg.Group, rank, size int) error {
		mine, all, err := g.NewSubgroups(ctx, 1, pg.GroupOptions{})
		if err != nil || len(all) != size || (mine == nil) != (rank < 0) {
			return fmt.Errorf("%d groups, mine %v, want %d: %w", len(all), mine, size, err)
		}
		return nil
	},
	"InitMesh": func(ctx context.Context, g *pg.Group, rank, size int) error {
		if rank < 0 {
			_, err := pg.InitMesh(ctx, g, []pg.MeshSize{{Name: "x", Size: size}}, pg.GroupOptions{})
			if !errors.Is(err, pg.ErrInvalidOp) { // it is in no line
				return fmt.Errorf("a spare: %w, want ErrInvalidOp", err)
			}
			return nil
		}
		_, err := pg.InitMesh(ctx, g, []pg.MeshSize{{Name: "x", Size: size}}, pg.GroupOptions{})
		return err
	},
	"MonitoredBarrier": func(ctx context.Context, g *pg.Group, _, _ int) error {
		return g.MonitoredBarrier(ctx, pg.MonitorOptions{})
	},
	"AllReduceMulti": func(ctx context.Context, g *pg.Group, _, _ int) error {
		ts := []tensor.Tensor{f64(1), f64(1)}
		return errors.Join(g.AllReduceMulti(ctx, ts, tensor.Avg), expect("average", ts, 1, 1))
	},
	"AllReduceMultiAsync": func(ctx context.Context, g *pg.Group, _, _ int) error {
		ts := []tensor.Tensor{f64(1), f64(1)}
		return errors.Join(g.Wait(ctx, g.AllReduceMultiAsync(ts, tensor.Avg)), expect("average", ts[:1], 1))
	},
	"ReduceMulti": func(ctx context.Context, g *pg.Group, rank, _ int) error {
		ts := []tensor.Tensor{f64(1), f64(3)}
		want := 3.0
		if rank == 1 {
			want = 2
		}
		return errors.Join(g.ReduceMulti(ctx, ts, tensor.Avg, pg.RootTensor{Root: 1, Tensor: 1}), expect("average", ts, 1, want))
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
		err := g.AllGatherMulti(ctx, []tensor.Tensor{f64(float64(rank)), f64(float64(rank) + 0.5)}, lists[:])
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
		err := g.ReduceScatterMulti(ctx, lists[:], out, tensor.Avg)
		if rank < 0 {
			return refused(err)
		}
		return errors.Join(err, expect("average", out, float64(rank)))
	},
}

// objectOf has another size at every rank.
func objectOf(rank int) any { return strings.Repeat("x", 3*(rank+2)) }

func objectsOf(size int) []any {
	all := make([]any, size)
	for r := range all {
		all[r] = objectOf(r)
	}
	return all
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

func newGroup(ctx context.Context, g *pg.Group, rank, size int, o pg.GroupOptions) error {
	all, err := g.NewGroup(ctx, nil, o)
	if err != nil {
		return err
	}
	if rank < 0 {
		return nil
	}
	sum, err := sumOf(ctx, all, 1)
	return errors.Join(err, equal(int(sum), size), equal(all.Rank(), rank))
}

// eachComposed runs every verb in a world of its own.
func eachComposed(t *testing.T, f func(t *testing.T, verb func(ctx context.Context, g *pg.Group, rank, size int) error)) {
	for name, verb := range composedVerbs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, verb)
		})
	}
}

// Verbs made of others are laid out for those who take part when they run. One member
// knows the quorum late, as a survivor does beside a joiner whose StartQuorum has waited
// for it; another takes no part.
func TestComposedVerbsBeforeQuorum(t *testing.T) {
	t.Parallel()
	participants := []int{0, 2, 3}
	eachComposed(t, func(t *testing.T, verb func(context.Context, *pg.Group, int, int) error) {
		w, managers := managedWorld(t, 4, participants...)
		late := managers[2]
		late.begin()
		for _, m := range slices.Delete(slices.Clone(managers), 2, 3) {
			m.begin()
			m.settle(nil)
		}
		time.AfterFunc(20*time.Millisecond, func() { late.settle(nil) })
		w.Each(func(ctx context.Context, member int, g *pg.Group) error {
			return verb(ctx, g, slices.Index(participants, member), len(participants))
		})
		for i, m := range managers {
			if errs := m.reported(); len(errs) > 0 {
				t.Errorf("member %d reported %v", i, errs)
			}
		}
	})
}

// moving is a quorum that falls, and is followed by another, after it was told of some
// times in one attempt.
type moving struct {
	*roster

	first pg.Roster
	times int // that first is told
}

func (m *moving) Roster(attempt int64) (pg.Roster, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.times--; m.times >= 0 {
		return m.first, true
	}
	return m.roster.roster, m.known
}

// movingWorld is a world of three of which member 2 takes part only after the quorum that
// all others knew was told of so many times.
func movingWorld(t *testing.T, times int) (groups []*pg.Group, managers []*moving, each func(func(context.Context, int, *pg.Group) error)) {
	t.Helper()
	w := memoryWorld(t, 3, func(b pg.Backend) pg.Backend {
		m := &moving{roster: newRoster(3, len(managers), 0, 1, 2)}
		managers = append(managers, m)
		return pg.NewManaged(b, m)
	})
	for _, m := range managers[:2] { // after World's own checks
		m.mu.Lock()
		m.times, m.first = times, m.roster.roster
		m.first.Participants = []int{0, 1}
		m.mu.Unlock()
	}
	return w.Groups, managers, w.Each
}

// A quorum may fall between a verb's look at it and its first op: the verb begins anew in
// the next one.
func TestComposedVerbsBeginAnew(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"AllGatherObjects", "GatherObjects", "BroadcastObjects", "ScatterObjects", "AllGatherUneven", "NewGroup", "MonitoredBarrier",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, managers, each := movingWorld(t, 1)
			each(func(ctx context.Context, member int, g *pg.Group) error {
				return composedVerbs[name](ctx, g, member, 3)
			})
			for i, m := range managers {
				if errs := m.reported(); len(errs) > 0 {
					t.Errorf("member %d reported %v", i, errs)
				}
			}
		})
	}
}

// A verb of which an op has run does not go on among others: the step is discarded.
func TestComposedVerbsDoNotGoOnAmongOthers(t *testing.T) {
	t.Parallel()
	groups, managers, _ := movingWorld(t, 2)
	errs := make(chan error, 2)
	for r, g := range groups[:2] {
		go func() {
			_, err := g.AllGatherObjects(t.Context(), objectOf(r))
			errs <- err
		}()
	}
	spare := make([]int64, 1) // the op below is over all members
	go func() {
		errs <- groups[2].Do(t.Context(), &pg.Op{
			Kind: pg.KindAllGather, In: []tensor.Tensor{tensor.Of(spare)},
			Out: []tensor.Tensor{tensor.Of([]int64{0}), tensor.Of([]int64{0}), tensor.Of([]int64{0})},
		})
	}()
	failed := 0
	for range 3 {
		if err := <-errs; err != nil {
			failed++
			if !errors.Is(err, pg.ErrAborted) || !strings.Contains(err.Error(), "take part") {
				t.Errorf("verb whose quorum moved: %v, want ErrAborted that says so", err)
			}
		}
	}
	if failed != 2 || len(managers[0].reported()) != 1 || len(managers[1].reported()) != 1 {
		t.Errorf("%d failed, reported %v and %v; want both to report it", failed, managers[0].reported(), managers[1].reported())
	}
}

// What ends the wait for the quorum ends the verb with one clear error, and the step.
func TestComposedVerbsWithoutQuorum(t *testing.T) {
	t.Parallel()
	cause := errors.New("no patience")
	for name, c := range map[string]struct {
		end      func(m *roster, g *pg.Group, cancel context.CancelCauseFunc)
		want     error
		reported bool
	}{
		"unreachable": {func(m *roster, _ *pg.Group, _ context.CancelCauseFunc) { m.settle(cause) }, cause, true},
		"canceled":    {func(_ *roster, _ *pg.Group, cancel context.CancelCauseFunc) { cancel(cause) }, cause, true},
		"closed":      {func(_ *roster, g *pg.Group, _ context.CancelCauseFunc) { _ = g.Close() }, pg.ErrClosed, false},
		"over":        {func(m *roster, _ *pg.Group, _ context.CancelCauseFunc) { m.begin(); m.settle(nil) }, pg.ErrAborted, false},
		"nobody": {func(m *roster, _ *pg.Group, _ context.CancelCauseFunc) {
			m.mu.Lock()
			m.roster.Participants = nil
			m.mu.Unlock()
			m.settle(nil)
		}, pg.ErrNotParticipating, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, managers := managedWorld(t, 1, 0)
			m, g := managers[0], w.Groups[0]
			m.begin()
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			time.AfterFunc(10*time.Millisecond, func() { c.end(m, g, cancel) })
			got, err := g.AllGatherObjects(ctx, 1)
			if !errors.Is(err, c.want) || got != nil {
				t.Errorf("%v, %v; want %v", got, err, c.want)
			}
			if errs := m.reported(); (len(errs) == 1) != c.reported || c.reported && !errors.Is(errs[0], c.want) {
				t.Errorf("reported %v, want it: %t", errs, c.reported)
			}
		})
	}
}

// A monitored barrier names those who are missing by their own ids, also when a member
// below takes no part.
func TestMonitoredBarrierNamesParticipants(t *testing.T) {
	t.Parallel()
	w, managers := managedWorld(t, 3, 1, 2)
	errs := make(chan error, 1)
	go func() { errs <- w.Groups[0].MonitoredBarrier(t.Context(), pg.MonitorOptions{Timeout: time.Minute}) }()
	err := w.Groups[1].MonitoredBarrier(t.Context(), pg.MonitorOptions{Timeout: 10 * time.Millisecond})
	missing, ok := errors.AsType[*pg.BarrierError](err)
	if !ok || !slices.Equal(missing.Missing, []int{1}) || !slices.Equal(missing.IDs, []string{"replica-2"}) {
		t.Errorf("missing: %v, want rank 1 (replica-2)", err)
	}
	if err := <-errs; !errors.Is(err, pg.ErrAborted) || len(managers[0].reported()) != 1 {
		t.Errorf("the spare: %v, reported %v; want ErrAborted, and a report", err, managers[0].reported())
	}
}
