package ddp_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/debug"
	"github.com/skerry-ft/skerry/pg/dummy"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/tensor"
	"github.com/skerry-ft/skerry/train/ddp"
	"github.com/skerry-ft/skerry/train/ddp/powersgd"
)

// shapes are parameters whose gradients the Reducer makes.
func shapes(dtype tensor.DType) []ddp.Param {
	return []ddp.Param{
		{Name: "a", DType: dtype, Shape: []int{2, 3}},
		{Name: "b", DType: dtype, Shape: []int{4}},
		{Name: "c", DType: dtype, Shape: []int{}},
	}
}

// TestViewsLieInBuckets: gradients are made by the Reducer, in memory of Alloc's, which is
// the very memory that is reduced; they stay where they are, and are weighed in place.
func TestViewsLieInBuckets(t *testing.T) {
	t.Parallel()
	w := pgtest.MemoryWorld(t, 2, nil)
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		var arena tensor.Tensor
		var reduced []bool
		red, err := ddp.New(ddp.Over(g), shapes(tensor.Float32), ddp.Options{
			Views: true, BucketBytes: 20,
			Alloc: func(dtype tensor.DType, shape ...int) (tensor.Tensor, error) {
				arena = tensor.New(dtype, shape...)
				return arena, nil
			},
			Hook: ddp.HookFunc(func(b *ddp.Bucket) ddp.Future {
				for k := range b.Len() {
					reduced = append(reduced, b.Grad(k).SameMemory(shapesOf(b, k)))
				}
				return ddp.AllReduce{}.Reduce(b)
			}),
		})
		if err != nil {
			return err
		}
		grads := []tensor.Tensor{red.Grad(0), red.Grad(1), red.Grad(2)}
		if got := grads[0].Shape(); !slices.Equal(got, []int{2, 3}) || grads[2].NumDims() != 0 {
			t.Errorf("gradients %v, want their shapes", grads)
		}
		for step := range 2 {
			for i := range grads {
				for j := range grads[i].Len() {
					tensor.Slice[float32](grads[i])[j] = float32(4 * (rank + 1 + step))
				}
			}
			if step == 1 {
				red.Weigh(1+2*rank, 4)
			}
			for i := 2; i >= 0; i-- {
				red.Ready(i)
			}
			if err := red.Reduce(ctx); err != nil {
				return err
			}
			want := []float32{6, 8.0/4 + 12.0*3/4}[step]
			for i, g := range grads {
				if !g.SameMemory(red.Grad(i)) || slices.ContainsFunc(tensor.Slice[float32](g), func(v float32) bool { return v != want }) {
					t.Errorf("rank %d step %d: gradient %d is %v, want %v", rank, step, i, tensor.Slice[float32](g), want)
				}
			}
		}
		if len(reduced) != 6 || slices.Contains(reduced, false) || slices.ContainsFunc(tensor.Slice[float32](arena), func(v float32) bool { return v != 11 }) {
			t.Errorf("rank %d: %v, arena %v: the buckets are not the views", rank, reduced, tensor.Slice[float32](arena))
		}
		return g.Barrier(ctx)
	})
}

func shapesOf(b *ddp.Bucket, k int) tensor.Tensor {
	t := b.Tensor()
	from, to := b.Range(k)
	return t.Flat(from, to)
}

func TestViewsAreChecked(t *testing.T) {
	t.Parallel()
	f := tensor.Of(make([]float32, 2))
	for _, c := range []struct {
		params []ddp.Param
		o      ddp.Options
		want   string
	}{
		{[]ddp.Param{{Name: "a", Grad: f}}, ddp.Options{Views: true}, "want none under Views"},
		{[]ddp.Param{{Name: "a", DType: tensor.Int8}}, ddp.Options{Views: true}, "int8"},
		{[]ddp.Param{{Name: "a", DType: tensor.Float32, Shape: []int{-1}}}, ddp.Options{Views: true}, "negative dimension"},
		{[]ddp.Param{{Name: "a", DType: tensor.Float32, Shape: []int{1}}}, ddp.Options{}, "or Views"},
		{[]ddp.Param{{Name: "a", Grad: f}}, ddp.Options{Debug: 9}, "Debug = debug-level(9)"},
		{[]ddp.Param{{Name: "a", Grad: f}}, ddp.Options{Alloc: func(tensor.DType, ...int) (tensor.Tensor, error) { return f.Flat(0, 1), nil }}, "made float32[1] by Alloc, want 2 elements"},
		{[]ddp.Param{{Name: "a", Grad: f}}, ddp.Options{Alloc: func(tensor.DType, ...int) (tensor.Tensor, error) { return f, errors.New("no room") }}, "no room"},
		{[]ddp.Param{{Name: "a", Grad: f}}, ddp.Options{Alloc: onFake}, "want host memory without Views"},
	} {
		if _, err := ddp.New(nil, c.params, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want one with %q", err, c.want)
		}
	}
}

// fakeMemory is device memory that the test can read.
type fakeMemory []byte

func (m fakeMemory) Device() tensor.Device   { return tensor.CUDA(0) }
func (m fakeMemory) NumBytes() int           { return len(m) }
func (m fakeMemory) Address() uintptr        { return 0 }
func (m fakeMemory) Export() ([]byte, error) { return nil, errors.ErrUnsupported }
func (m fakeMemory) CopyToHost(dst []byte, offset int) error {
	copy(dst, m[offset:])
	return nil
}
func (m fakeMemory) CopyFromHost(offset int, src []byte) error {
	copy(m[offset:], src)
	return nil
}

func onFake(dtype tensor.DType, shape ...int) (tensor.Tensor, error) {
	n, err := tensor.Elements(dtype, shape)
	if err != nil {
		return tensor.Tensor{}, err
	}
	m := make(fakeMemory, n*dtype.Size())
	return tensor.OnDevice(&m, dtype, shape...)
}

// devices is a backend that notes where the tensors of its ops lie.
type devices struct {
	pg.Backend
	seen []tensor.Tensor
}

func (d *devices) Submit(op *pg.Op) *pg.Work {
	d.seen = append(d.seen, op.In[0])
	return pg.Finished(op, nil)
}

// TestDeviceBuckets: gradients on a device are views of buckets there, which are reduced
// where they are; what needs host memory says so.
func TestDeviceBuckets(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		hook  ddp.Hook
		weigh bool
		want  string
	}{
		"average": {},
		"weighed": {weigh: true, want: "weigh \"c\" on cuda:0, want host memory"},
		"half":    {hook: must(ddp.NewCompress(tensor.Float16, nil)), want: "convert"},
		"low rank": {hook: must(powersgd.New(shapes(tensor.Float32), powersgd.Config{})),
			want: "bucket on cuda:0, want host memory"},
	} {
		backend := &devices{Backend: dummy.New()}
		g := pg.NewGroup(backend)
		red, err := ddp.New(ddp.Over(g), shapes(tensor.Float32), ddp.Options{Views: true, Alloc: onFake, Hook: c.hook, NoRebuild: true})
		if err != nil {
			t.Fatal(err)
		}
		if c.weigh {
			red.Weigh(1, 2)
		}
		red.Ready(2)
		red.Ready(1)
		red.Ready(0)
		err = red.Reduce(t.Context())
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %q", name, err, c.want)
			}
			continue
		}
		if err != nil || len(backend.seen) != 1 || backend.seen[0].Len() != 11 || red.Grad(0).Device() != tensor.CUDA(0) {
			t.Errorf("%s: %v, ops on %v, gradient %v", name, err, backend.seen, red.Grad(0))
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestStaticGraph: gradients that the first step does not use do not hold up buckets from then on;
// steps with other gradients are errors.
func TestStaticGraph(t *testing.T) {
	t.Parallel()
	w, ranks := newWorld(1)
	red, err := ddp.New(ddp.Over(ranks[0].group), newModel([]int{3, 3, 3}, 0, 0).params(),
		ddp.Options{StaticGraph: true, NoRebuild: true, BucketBytes: 12})
	if err != nil {
		t.Fatal(err)
	}
	red.Ready(0)
	if len(w.mu.bytes) != 0 {
		t.Fatalf("ops of %v bytes before the graph is known, want none", w.mu.bytes)
	}
	if err := red.Reduce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := red.Stats().Unused; !slices.Equal(got, []string{"p1", "p2"}) {
		t.Errorf("unused %v, want p1 and p2", got)
	}
	red.Ready(0)
	if len(w.mu.bytes) != 6 {
		t.Errorf("%d ops before Reduce, want all 3: unused gradients hold none up", len(w.mu.bytes)-3)
	}
	if err := red.Reduce(t.Context()); err != nil {
		t.Fatal(err)
	}
	red.Ready(2)
	red.Ready(0)
	err = red.Reduce(t.Context())
	if graph, ok := errors.AsType[*ddp.GraphError](err); !ok || graph.Param != "p2" {
		t.Errorf("another graph: %v, want a GraphError of p2", err)
	}
	err = red.Reduce(t.Context())
	if unused, ok := errors.AsType[*ddp.UnusedError](err); !ok || !slices.Equal(unused.Params, []string{"p0"}) {
		t.Errorf("no gradient: %v, want an UnusedError of p0", err)
	}
	red.Ready(0)
	if err := red.Reduce(t.Context()); err != nil {
		t.Errorf("a good step after bad ones: %v", err)
	}
}

// TestForgottenReduce: under CheckReduction the step fails and says why, and the next is good.
func TestForgottenReduce(t *testing.T) {
	t.Parallel()
	w := pgtest.MemoryWorld(t, 2, nil)
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		m := newModel([]int{2, 4}, rank, 0)
		red, err := ddp.New(ddp.Over(g), m.params(), ddp.Options{CheckReduction: true})
		if err != nil {
			return err
		}
		red.Ready(1)
		red.Ready(0)
		red.Ready(1) // the next step
		red.Ready(0)
		err = red.Reduce(ctx)
		if forgotten, ok := errors.AsType[*ddp.ForgottenError](err); !ok || forgotten.Param != "p1" || !strings.Contains(err.Error(), "Reduce was not called") {
			t.Errorf("rank %d: %v, want a ForgottenError of p1", rank, err)
		}
		if s := red.Stats(); s.Steps != 1 || s.Failed != 1 {
			t.Errorf("stats %+v, want one failed step", s)
		}
		return errors.Join(oneStep(ctx, red, m, rank, 1, []int{0, 1}, 0, 1), g.Barrier(ctx))
	})
}

// TestDetailIsLogged: at DETAIL the settings are logged, and each step.
func TestDetailIsLogged(t *testing.T) {
	t.Parallel()
	for level, want := range map[debug.Level][]string{
		debug.Off:  nil,
		debug.Info: {`"reducer made"`},
		debug.Detail: {
			`"message":"reducer made"`, `"params":2`, `"bucket_bytes":1048576`, `"hook":"ddp.AllReduce"`,
			`"message":"gradients reduced"`, `"buckets":1`, `"bytes":24`, `"order":["p0","p1"]`, `"waited_ms":`, `"rebuilt":true`,
		},
	} {
		_, ranks := newWorld(1)
		var log bytes.Buffer
		red, err := ddp.New(ddp.Over(ranks[0].group), newModel([]int{2, 4}, 0, 0).params(), ddp.Options{Log: zerolog.New(&log), Debug: level})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			red.Ready(0)
			red.Ready(1)
			if err := red.Reduce(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		for _, w := range want {
			if !strings.Contains(log.String(), w) {
				t.Errorf("%v: log %s, want %s in it", level, &log, w)
			}
		}
		if len(want) == 0 && log.Len() > 0 || level == debug.Info && strings.Contains(log.String(), "gradients reduced") {
			t.Errorf("%v: log %s", level, &log)
		}
		if s := red.Stats(); s.Steps != 2 || s.Failed != 0 || s.Bytes != 24 || s.WaitedTotal < s.Waited {
			t.Errorf("stats %+v", s)
		}
	}
}

// TestStepsAllocateNothing: over a backend that gives memory back, with each hook. It is not
// parallel, for all allocations of the process are counted.
func TestStepsAllocateNothing(t *testing.T) {
	params := []ddp.Param{{Name: "w", DType: tensor.Float32, Shape: []int{32, 48}}, {Name: "b", DType: tensor.Float32, Shape: []int{48}}}
	for name, hook := range map[string]ddp.Hook{
		"average": nil,
		"half":    must(ddp.NewCompress(tensor.BFloat16, nil)),
		"low":     must(powersgd.New(params, powersgd.Config{Rank: 2})),
		"both":    must(ddp.NewCompress(tensor.Float16, must(powersgd.New(params, powersgd.Config{Rank: 2})))),
	} {
		g := pg.NewGroup(dummy.New())
		if err := g.Configure(t.Context(), pg.Config{ReplicaIDs: []string{"a"}, Cluster: "c", QuorumID: 1}); err != nil {
			t.Fatal(err)
		}
		grads := []ddp.Param{{Name: "w", Grad: must(tensor.Of(make([]float32, 32*48)).Reshape(32, 48))}, {Name: "b", Grad: tensor.Of(make([]float32, 48))}}
		red, err := ddp.New(ddp.Over(g), grads, ddp.Options{Hook: hook})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 32 * 48 {
			tensor.Slice[float32](grads[0].Grad)[i] = float32(i % 11)
		}
		step := func() {
			red.Weigh(1, 2)
			red.Ready(1)
			red.Ready(0)
			if err := red.Reduce(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 {
			step() // the buckets are rebuilt
		}
		if got := testing.AllocsPerRun(50, step); got != 0 && !testkit.RaceEnabled { // the race detector drops pooled memory on purpose
			t.Errorf("%s: %v allocations in a step, want none", name, got)
		}
	}
}
