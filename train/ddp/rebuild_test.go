package ddp_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/managedtest"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/tensor"
	"github.com/skerry-ft/skerry/train/ddp"
)

// oneStep makes the gradients of a step ready in an order and checks their averages over
// the ranks that count.
func oneStep(ctx context.Context, red *ddp.Reducer, m model, rank, step int, order []int, counting ...int) error {
	want := make(model, len(m))
	for i, g := range newModel(sizesOf(m), rank, step) {
		copy(m[i], g)
	}
	for i := range m {
		want[i] = make([]float32, len(m[i]))
		for _, r := range counting {
			for j, v := range newModel(sizesOf(m), r, step)[i] {
				want[i][j] += v
			}
		}
		for j := range want[i] {
			want[i][j] /= float32(len(counting))
		}
	}
	for _, i := range order {
		red.Ready(i)
	}
	if err := red.Reduce(ctx); err != nil {
		return err
	}
	for i := range m {
		if !slices.Equal(m[i], want[i]) {
			return fmt.Errorf("step %d: gradient %d is %v, want %v", step, i, m[i], want[i])
		}
	}
	return nil
}

func sizesOf(m model) []int {
	sizes := make([]int, len(m))
	for i, g := range m {
		sizes[i] = len(g)
	}
	return sizes
}

// TestBucketsFollowRankZero: gradients become ready in another order on each rank. After
// the first step all have the buckets that rank 0's order makes, once and for all; without
// rebuilding they have the first ones.
func TestBucketsFollowRankZero(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		options ddp.Options
		bytes   []int // of buckets after the first step
	}{
		{ddp.Options{BucketBytes: 20}, []int{20, 16, 20}}, // 2, 0 | 3 | 1, 4
		{ddp.Options{BucketBytes: 20, NoRebuild: true}, []int{20, 12, 16, 8}},
		{ddp.Options{BucketBytes: 20, FindUnused: true}, []int{20, 12, 16, 8}},
	} {
		w := pgtest.MemoryWorld(t, 3, nil)
		w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
			m := newModel([]int{2, 4, 3, 4, 1}, rank, 0)
			red, err := ddp.New(ddp.Over(g), m.params(), c.options)
			if err != nil {
				return err
			}
			draw := rand.New(rand.NewPCG(uint64(rank), 7))
			for step := range 4 {
				order := draw.Perm(5)
				if rank == 0 {
					order = []int{2, 0, 3, 1, 4}
				}
				if err := oneStep(ctx, red, m, rank, step, order, 0, 1, 2); err != nil {
					return err
				}
				if rank == 0 && !slices.Equal(red.Stats().Order, []string{"p2", "p0", "p3", "p1", "p4"}) {
					t.Errorf("order %v", red.Stats().Order)
				}
			}
			if s := red.Stats(); !slices.Equal(s.BucketBytes, c.bytes) || s.Rebuilt != (len(c.bytes) == 3) {
				t.Errorf("%+v: rank %d has buckets of %v bytes, rebuilt %v, want %v", c.options, rank, s.BucketBytes, s.Rebuilt, c.bytes)
			}
			return g.Barrier(ctx)
		})
	}
}

// member is a manager as a Reducer sees it, over one that the test moves.
type member struct {
	group *pg.Group
	*managedtest.Manager
}

func (m member) Group() *pg.Group { return m.group }
func (m member) ReportError(err error) {
	m.Manager.ReportError(m.Attempt(), err)
}

// TestNewcomersTakeUpThePlan: members begin with other orders and phases than the first
// participant: one is new, one is healed beside the step and does not count, and in each step
// another one is first. The ops of every step match, and the averages are those of who counts.
func TestNewcomersTakeUpThePlan(t *testing.T) {
	t.Parallel()
	w, managers := managedtest.World(t, 3, 0, 1, 2)
	counting := [][]int{{0, 1, 2}, {0, 2}, {1, 2}, {1}, {2, 0}, {0, 1, 2}, {1, 2}, {0, 2}, {0, 1}}
	reducers, models := make([]*ddp.Reducer, 3), make([]model, 3)
	hooks := make([]*phases, 3)
	for step, who := range counting {
		slices.Sort(who)
		for i, m := range managers {
			m.Begin()
			m.Choose(who...)
			m.Settle(nil)
			if reducers[i] == nil || step == 1+i || step == 6+i { // each is new again, before the buckets are rebuilt and after
				models[i], hooks[i] = newModel([]int{2, 4, 3, 4, 1}, i, 0), &phases{phase: int64(10 * i)}
				red, err := ddp.New(member{w.Groups[i], m}, models[i].params(), ddp.Options{BucketBytes: 20, Hook: hooks[i]})
				if err != nil {
					t.Fatal(err)
				}
				reducers[i] = red
			}
		}
		w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
			order := rand.New(rand.NewPCG(uint64(rank), uint64(step))).Perm(5)
			if err := oneStep(ctx, reducers[rank], models[rank], rank, step, order, who...); err != nil {
				return err
			}
			if step != 2 { // that one is discarded
				reducers[rank].Commit()
			}
			return nil
		})
		for i, m := range managers {
			if errs := m.Reported(); len(errs) > 0 {
				t.Fatalf("step %d: member %d reported %v", step, i, errs)
			}
			if hooks[i].began != hooks[who[0]].began || hooks[i].rank != slices.Index(who, i) || hooks[i].size != len(who) {
				t.Errorf("step %d: member %d began at %d as %d of %d, want %d as %d of %d", step, i,
					hooks[i].began, hooks[i].rank, hooks[i].size, hooks[who[0]].began, slices.Index(who, i), len(who))
			}
			if same(reducers[i], reducers[who[0]]) != true {
				t.Errorf("step %d: members %d and %d are in two orders", step, i, who[0])
			}
		}
	}
}

// phases is an all-reduce that notes its phases; one more op goes out in odd ones.
type phases struct {
	phase, began int64
	rank, size   int
	extra        [1]float32
}

func (p *phases) Phase() int64      { return p.phase }
func (p *phases) Begin(phase int64) { p.began = phase }
func (p *phases) Commit()           { p.phase = p.began + 1 }
func (p *phases) Reduce(b *ddp.Bucket) ddp.Future {
	p.rank, p.size = b.Rank(), b.Size()
	b.AllReduce(b.Tensor())
	if p.began%2 == 0 {
		return ddp.Future{}
	}
	return ddp.Then(func() ddp.Future {
		b.AllReduce(tensor.Of(p.extra[:]))
		return ddp.Future{}
	})
}

func same(a, b *ddp.Reducer) bool {
	return slices.Equal(tensor.Slice[int32](a.State().Tensors["order"]), tensor.Slice[int32](b.State().Tensors["order"]))
}

// TestOtherModelsAreRefused: a peer with other sizes of buckets, or other parameters, is
// named as such on all ranks but the first, and the group is aborted.
func TestOtherModelsAreRefused(t *testing.T) {
	t.Parallel()
	w := pgtest.MemoryWorld(t, 2, nil)
	err := w.Try(func(ctx context.Context, rank int, g *pg.Group) error {
		red, err := ddp.New(ddp.Over(g), newModel([]int{2, 4}, rank, 0).params(), ddp.Options{BucketBytes: 100 + rank})
		if err != nil {
			return err
		}
		err = red.Reduce(ctx)
		if rank == 1 && (err == nil || !strings.Contains(err.Error(), "other parameters or sizes of buckets")) {
			t.Errorf("rank 1: %v, want the plan refused", err)
		}
		return err
	})
	if err == nil {
		t.Error("two sizes of buckets made one step")
	}
}

// TestStateIsTheOrder: what is registered changes with the steps that count, alone, and
// another Reducer goes on from it.
func TestStateIsTheOrder(t *testing.T) {
	t.Parallel()
	_, ranks := newWorld(1)
	m := newModel([]int{2, 4, 3}, 0, 0)
	red, err := ddp.New(ranks[0], m.params(), ddp.Options{BucketBytes: 20})
	if err != nil {
		t.Fatal(err)
	}
	order := func() []int32 { return slices.Clone(tensor.Slice[int32](red.State().Tensors["order"])) }
	first := []int32{0, 2, 1, 0}
	for step, want := range [][]int32{first, first, {1, 1, 2, 0}} {
		for _, i := range []int{1, 2, 0} {
			red.Ready(i)
		}
		if err := red.Reduce(t.Context()); err != nil {
			t.Fatal(err)
		}
		if step > 0 || !slices.Equal(order(), first) { // the first one is discarded
			red.Commit()
		}
		if got := order(); !slices.Equal(got, want) {
			t.Errorf("step %d: state %v, want %v", step, got, want)
		}
	}
	other, err := ddp.New(ranks[0], m.params(), ddp.Options{BucketBytes: 20})
	if err != nil {
		t.Fatal(err)
	}
	words := tensor.Slice[int32](other.State().Tensors["order"])
	copy(words, order())
	if err := other.Load(checkpoint.State{}); err != nil || !slices.Equal(other.Stats().BucketBytes, red.Stats().BucketBytes) {
		t.Errorf("load: %v, buckets %v, want %v", err, other.Stats().BucketBytes, red.Stats().BucketBytes)
	}
	for at, bad := range map[int]int32{0: 2, 1: 3, 2: 1} {
		copy(words, order())
		words[at] = bad
		if err := other.Load(checkpoint.State{}); err == nil {
			t.Errorf("a state of %v was taken", words)
		}
	}
}

// TestPlanEndsWithContext: ctx's end while the plan is waited for.
func TestPlanEndsWithContext(t *testing.T) {
	t.Parallel()
	w := pgtest.MemoryWorld(t, 2, nil) // and the other rank does not come
	red, err := ddp.New(ddp.Over(w.Groups[1]), newModel([]int{2}, 1, 0).params(), ddp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	red.Ready(0)
	if err := red.Reduce(ctx); !errors.Is(err, gone) {
		t.Errorf("reduce: %v, want %v", err, gone)
	}
}
