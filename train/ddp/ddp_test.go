package ddp_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
	"github.com/skerry-ft/skerry/train/ddp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a process group in memory: an op is done when every rank has
// submitted its part.
type world struct {
	size int

	mu struct {
		sync.Mutex

		ops   map[int][]*pg.Work // by sequence number
		roots map[int]*pg.Work   // rank 0's of them
		bytes []int              // of the all-reduces, in order
	}
}

// rank is one rank of a world; it also plays the manager.
type rank struct {
	w       *world
	index   int
	group   *pg.Group
	next    int
	fail    error // of every op
	reports []error
}

func newWorld(size int) (*world, []*rank) {
	w := &world{size: size}
	w.mu.ops, w.mu.roots = make(map[int][]*pg.Work), make(map[int]*pg.Work)
	ranks := make([]*rank, size)
	for i := range ranks {
		ranks[i] = &rank{w: w, index: i}
		ranks[i].group = pg.NewGroup(ranks[i])
	}
	return w, ranks
}

func (r *rank) Name() string                               { return "world" }
func (r *rank) Configure(context.Context, pg.Config) error { return nil }
func (r *rank) Err() error                                 { return nil }
func (r *rank) Close() error                               { return nil }
func (r *rank) Group() *pg.Group                           { return r.group }
func (r *rank) ReportError(err error)                      { r.reports = append(r.reports, err) }
func (r *rank) Abort(_ pg.Epoch, cause error)              { r.w.abort(cause) }
func (r *rank) Submit(op *pg.Op) *pg.Work                  { return r.w.submit(r, op) }

func (w *world) abort(cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, works := range w.mu.ops {
		for _, work := range works {
			work.Complete(cause)
		}
	}
}

func (w *world) submit(r *rank, op *pg.Op) *pg.Work {
	work := pg.NewWork(op)
	if r.fail != nil {
		work.Complete(r.fail)
		return work
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.ops[r.next] = append(w.mu.ops[r.next], work)
	works := w.mu.ops[r.next]
	if r.index == 0 {
		w.mu.roots[r.next] = work
	}
	root := w.mu.roots[r.next]
	r.next++
	if len(works) < w.size {
		return work
	}
	if op.Kind == pg.KindBroadcast {
		for _, done := range works {
			copy(done.Op().Out[0].Bytes(), root.Op().In[0].Bytes())
		}
	} else {
		w.mu.bytes = append(w.mu.bytes, op.In[0].NumBytes())
		average(works)
	}
	for _, done := range works {
		done.Complete(nil)
	}
	return work
}

func average(works []*pg.Work) {
	sum := make([]float32, works[0].Op().In[0].Len())
	for _, work := range works {
		for i, v := range tensor.Slice[float32](work.Op().In[0]) {
			sum[i] += v
		}
	}
	for _, work := range works {
		for i := range sum {
			tensor.Slice[float32](work.Op().Out[0])[i] = sum[i] / float32(len(works))
		}
	}
}

// model is the gradients of one rank.
type model [][]float32

func newModel(sizes []int, rank, step int) model {
	m := make(model, len(sizes))
	next := float32(0)
	for i, n := range sizes {
		m[i] = make([]float32, n)
		for j := range m[i] {
			next++
			m[i][j] = next + 1000*float32(rank) + 10000*float32(step) // exact in float32
		}
	}
	return m
}

func (m model) params() []ddp.Param {
	out := make([]ddp.Param, len(m))
	for i, g := range m {
		out[i] = ddp.Param{Name: fmt.Sprint("p", i), Grad: tensor.Of(g)}
	}
	return out
}

// The sizes with which torchft's buckets lose tensors, and others.
var layouts = []struct {
	sizes []int
	cap   int // elements
}{
	{[]int{6, 6}, 10},
	{[]int{30, 2, 2}, 10},
	{[]int{2, 2, 30}, 10},
	{[]int{1, 1, 1, 1, 1, 1, 1}, 3},
	{[]int{10}, 10},
	{[]int{11}, 10},
	{[]int{0, 5, 0}, 10},
	{[]int{0}, 10},
	{[]int{}, 10},
	{[]int{7, 3, 9, 1, 40, 2, 8, 8, 100, 1}, 1},
	{[]int{7, 3, 9, 1, 40, 2, 8, 8, 100, 1}, 0}, // the default
}

// TestEveryElementIsReduced runs two ranks whose gradients become ready in
// different orders, and some never.
func TestEveryElementIsReduced(t *testing.T) {
	t.Parallel()
	for _, l := range layouts {
		t.Run(fmt.Sprint(l.sizes, l.cap), func(t *testing.T) {
			t.Parallel()
			_, ranks := newWorld(2)
			var wg sync.WaitGroup
			for i, r := range ranks {
				wg.Go(func() { reduceSteps(t, r, i, l.sizes, l.cap*4) })
			}
			wg.Wait()
		})
	}
}

func reduceSteps(t *testing.T, r *rank, index int, sizes []int, limit int) {
	m := newModel(sizes, index, 0)
	red, err := ddp.New(r, m.params(), ddp.Options{BucketBytes: limit, FindUnused: true})
	if err != nil {
		t.Error(err)
		return
	}
	order := rand.New(rand.NewPCG(uint64(index), 1))
	for step := range 3 {
		for i, g := range newModel(sizes, index, step) {
			copy(m[i], g)
		}
		for _, i := range order.Perm(len(sizes))[:len(sizes)*(step+1)/3] {
			red.Ready(i)
		}
		if err := red.Reduce(t.Context()); err != nil {
			t.Error(err)
			return
		}
		want := newModel(sizes, 0, step)
		for i := range want {
			for j := range want[i] {
				if want[i][j] += 500; m[i][j] != want[i][j] {
					t.Errorf("rank %d step %d: gradient %d[%d] = %v, want %v", index, step, i, j, m[i][j], want[i][j])
					return
				}
			}
		}
	}
}

func TestBucketsFillInReverse(t *testing.T) {
	t.Parallel()
	w, ranks := newWorld(1)
	m := newModel([]int{4, 3, 50, 2, 2}, 0, 0)
	red, err := ddp.New(ranks[0], m.params(), ddp.Options{BucketBytes: 20, FindUnused: true})
	if err != nil {
		t.Fatal(err)
	}
	red.Ready(2) // full, but not the first bucket
	if got := len(w.mu.bytes); got != 0 {
		t.Fatalf("%d buckets started before the first was full", got)
	}
	red.Ready(4)
	red.Ready(3)
	if want := []int{16, 200}; !slices.Equal(w.mu.bytes, want) {
		t.Errorf("buckets of %v bytes started, want %v", w.mu.bytes, want)
	}
	if err := red.Reduce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := []int{16, 200, 12, 16}; !slices.Equal(w.mu.bytes, want) {
		t.Errorf("buckets of %v bytes in all, want %v", w.mu.bytes, want)
	}
}

func TestErrorsGoToTheManager(t *testing.T) {
	t.Parallel()
	_, ranks := newWorld(1)
	red, err := ddp.New(ranks[0], newModel([]int{3, 3}, 0, 0).params(), ddp.Options{FindUnused: true})
	if err != nil {
		t.Fatal(err)
	}
	boom := errors.New("boom")
	ranks[0].fail = boom
	if err := red.Reduce(t.Context()); err != nil {
		t.Errorf("reduce: %v, want nil", err)
	}
	if len(ranks[0].reports) != 1 || !errors.Is(ranks[0].reports[0], boom) {
		t.Errorf("reports %v, want one of boom", ranks[0].reports)
	}
	ranks[0].fail = nil
	if err := red.Reduce(t.Context()); err != nil || len(ranks[0].reports) != 1 {
		t.Errorf("the next step: %v, reports %v", err, ranks[0].reports)
	}
}

func TestEndedContextAborts(t *testing.T) {
	t.Parallel()
	_, ranks := newWorld(2) // and the other never comes
	red, err := ddp.New(ranks[0], newModel([]int{3, 3}, 0, 0).params(), ddp.Options{BucketBytes: 12})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	red.Ready(1)
	gone := errors.New("gone")
	cancel(gone)
	if err := red.Reduce(ctx); !errors.Is(err, gone) {
		t.Errorf("reduce: %v, want %v", err, gone)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	f := tensor.Of(make([]float32, 2))
	strided, err := tensor.Of(make([]float32, 4)).AsStrided([]int{2}, []int{2})
	if err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		params []ddp.Param
		bucket int
		want   string
	}{
		{[]ddp.Param{{Name: "a", Grad: f}, {Name: "a", Grad: f}}, 0, `name "a" is taken`},
		{[]ddp.Param{{Name: "a", Grad: tensor.Of(make([]int32, 2))}}, 0, "int32"},
		{[]ddp.Param{{Name: "a", Grad: strided}}, 0, "contiguous"},
		{[]ddp.Param{{Name: "a"}}, 0, "float"},
		{nil, -1, "BucketBytes = -1"},
	}
	for _, c := range cases {
		if _, err := ddp.New(nil, c.params, ddp.Options{BucketBytes: c.bucket}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want one with %q", err, c.want)
		}
	}
}

func TestReadyTwicePanics(t *testing.T) {
	t.Parallel()
	_, ranks := newWorld(1)
	red, err := ddp.New(ranks[0], newModel([]int{3, 3}, 0, 0).params(), ddp.Options{FindUnused: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if recover() == nil {
			t.Error("the second Ready did not panic")
		}
	}()
	red.Ready(0)
	red.Ready(0)
}
