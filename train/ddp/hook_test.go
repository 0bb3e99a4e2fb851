package ddp_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/dummy"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/tensor"
	"github.com/skerry-ft/skerry/train/ddp"
	"github.com/skerry-ft/skerry/train/ddp/powersgd"
)

// The model of the tests of hooks: two matrices, and what is not one.
var hookShapes = [][]int{{6, 8}, {5}, {3, 2, 10}, {2, 2}}

// gradients are what a rank has in a step, the same for who asks.
func gradients(rank, step int) [][]float32 {
	r := rand.New(rand.NewPCG(uint64(rank), uint64(step)))
	out := make([][]float32, len(hookShapes))
	for i, shape := range hookShapes {
		n := 1
		for _, d := range shape {
			n *= d
		}
		out[i] = make([]float32, n)
		for j := range out[i] {
			out[i][j] = float32(r.NormFloat64())
		}
	}
	return out
}

// shaped makes params over gradients.
func shaped(grads [][]float32) []ddp.Param {
	out := make([]ddp.Param, len(grads))
	for i, g := range grads {
		out[i] = ddp.Param{Name: fmt.Sprint("p", i), Grad: must(tensor.Of(g).Reshape(hookShapes[i]...))}
	}
	return out
}

// reduced is what a hook makes of steps on ranks, by step and parameter; all ranks get the
// same. Samples weigh the ranks of a step, none: they are equal.
func reduced(t *testing.T, ranks, steps int, hook func(params []ddp.Param) ddp.Hook, samples func(step int) []int) [][][]float32 {
	t.Helper()
	out := make([][][]float32, steps)
	w := pgtest.MemoryWorld(t, ranks, nil)
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		grads := gradients(rank, 0)
		red, err := ddp.New(ddp.Over(g), shaped(grads), ddp.Options{Hook: hook(shaped(grads)), BucketBytes: 300, FirstBucketBytes: 100})
		if err != nil {
			return err
		}
		for step := range steps {
			for i, g := range gradients(rank, step) {
				copy(grads[i], g)
			}
			if samples != nil {
				of, all := samples(step), 0
				for _, n := range of {
					all += n
				}
				red.Weigh(of[rank], all)
			}
			for _, i := range rand.New(rand.NewPCG(9, uint64(rank+step))).Perm(len(grads)) {
				red.Ready(i)
			}
			if err := red.Reduce(ctx); err != nil {
				return err
			}
			copied := make([][]float32, len(grads))
			for i := range grads {
				copied[i] = slices.Clone(grads[i])
			}
			all := make([]float32, 0, 200)
			for _, g := range grads {
				all = append(all, g...)
			}
			sums := [2][]float32{slices.Clone(all), slices.Clone(all)}
			if err := errors.Join(g.AllReduce(ctx, tensor.Of(sums[0]), tensor.Min), g.AllReduce(ctx, tensor.Of(sums[1]), tensor.Max)); err != nil {
				return err
			}
			if !slices.Equal(sums[0], sums[1]) {
				t.Errorf("step %d: the ranks differ", step)
			}
			if rank == 0 {
				out[step] = copied
			}
		}
		return g.Barrier(ctx)
	})
	return out
}

// halved is the average of what ranks have, rounded to a 16-bit dtype before, folded in
// float32, and rounded again.
func halved(ranks [][]float32, to tensor.DType) []float32 {
	round := func(v float32) float32 {
		if to == tensor.Float16 {
			return tensor.NewF16(v).Float32()
		}
		return tensor.NewBF16(v).Float32()
	}
	out := make([]float32, len(ranks[0]))
	for j := range out {
		sum := round(ranks[0][j])
		for _, r := range ranks[1:] {
			sum += round(r[j])
		}
		out[j] = round(sum / float32(len(ranks)))
	}
	return out
}

// TestCompressedBytes: the bytes of a compressed average are those of the formula.
func TestCompressedBytes(t *testing.T) {
	t.Parallel()
	for _, to := range []tensor.DType{tensor.Float16, tensor.BFloat16} {
		got := reduced(t, 3, 3, func([]ddp.Param) ddp.Hook { return must(ddp.NewCompress(to, nil)) }, nil)
		for step := range got {
			for i := range hookShapes {
				want := halved([][]float32{gradients(0, step)[i], gradients(1, step)[i], gradients(2, step)[i]}, to)
				if !slices.Equal(got[step][i], want) {
					t.Errorf("%v step %d: gradient %d is %v, want %v", to, step, i, got[step][i], want)
				}
			}
		}
	}
}

// TestCompressedDTypes: float64 is compressed too; what is 16 bits wide, or complex, goes as
// it is; weighed gradients are rounded after they are weighed.
func TestCompressedDTypes(t *testing.T) {
	t.Parallel()
	w := pgtest.MemoryWorld(t, 2, nil)
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		f64, c64 := []float64{1.0001 + float64(rank)}, []complex64{complex(1.0001, float32(rank))}
		bf16 := []tensor.BF16{tensor.NewBF16(1 + float32(rank))}
		f32 := []float32{1.0001 + 4*float32(rank)}
		red, err := ddp.New(ddp.Over(g), []ddp.Param{
			{Name: "f64", Grad: tensor.Of(f64)}, {Name: "c64", Grad: tensor.Of(c64)},
			{Name: "bf16", Grad: tensor.Of(bf16)}, {Name: "f32", Grad: tensor.Of(f32)},
		}, ddp.Options{Hook: must(ddp.NewCompress(tensor.Float16, nil))})
		if err != nil {
			return err
		}
		red.Weigh(3-2*rank, 4)
		for i := range 4 {
			red.Ready(i)
		}
		if err := red.Reduce(ctx); err != nil {
			return err
		}
		half := func(v float32) float32 { return tensor.NewF16(v).Float32() }
		want32 := half(half(float32(1.0001*0.75)) + half(float32(5.0001)*0.25))
		want64 := float64(half(half(float32(1.0001*0.75)) + half(float32(2.0001*0.25))))
		if f64[0] != want64 || f32[0] != want32 || bf16[0].Float32() != 1.25 || real(c64[0]) != float32(1.0001) && imag(c64[0]) != 0.25 {
			t.Errorf("rank %d: %v, %v, %v, %v, want %v, %v, 1.25, (1.0001+0.25i)", rank, f64, f32, bf16[0].Float32(), c64, want64, want32)
		}
		return g.Barrier(ctx)
	})
	if _, err := ddp.NewCompress(tensor.Float32, nil); err == nil || !strings.Contains(err.Error(), "to = float32") {
		t.Errorf("NewCompress to float32: %v", err)
	}
}

// TestHookOfUser: a hook that gathers instead of reducing, in two rounds, gets what
// register_comm_hook's gets: each bucket once, in one order, with its parameters and
// whether it is the last; and its results are the gradients.
func TestHookOfUser(t *testing.T) {
	t.Parallel()
	var orders [2][]string
	w := pgtest.MemoryWorld(t, 2, nil)
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		m := newModel([]int{2, 4, 3}, rank, 0)
		red, err := ddp.New(ddp.Over(g), m.params(), ddp.Options{BucketBytes: 16, NoRebuild: true, Hook: ddp.HookFunc(func(b *ddp.Bucket) ddp.Future {
			if b.Rank() != rank || b.Size() != 2 || b.Op() != tensor.Avg || b.Share() != 1 {
				t.Errorf("bucket of rank %d of %d, op %v, share %v", b.Rank(), b.Size(), b.Op(), b.Share())
			}
			name := ""
			for k := range b.Len() {
				name += b.Name(k)
				if want := len(m[b.Param(k)]); b.Grad(k).Len() != want {
					t.Errorf("gradient %s has %d elements, want %d", b.Name(k), b.Grad(k).Len(), want)
				}
			}
			orders[rank] = append(orders[rank], fmt.Sprintf("%d %s %v", b.Index(), name, b.Last()))
			n := b.Tensor().Len()
			all := tensor.New(tensor.Float32, b.Size()*n)
			b.Start(pg.Op{Kind: pg.KindAllGather, Flat: true}, b.Tensor(), all)
			return ddp.Then(func() ddp.Future {
				for i := range n { // the larger one of the two
					tensor.Slice[float32](b.Tensor())[i] = max(tensor.Slice[float32](all)[i], tensor.Slice[float32](all)[n+i])
				}
				orders[rank] = append(orders[rank], name)
				b.AllReduce(b.Tensor())
				return ddp.Future{}
			})
		})})
		if err != nil {
			return err
		}
		for i := range 3 {
			red.Ready((i + rank) % 3)
		}
		if err := red.Reduce(ctx); err != nil {
			return err
		}
		for i, g := range newModel([]int{2, 4, 3}, 1, 0) {
			if !slices.Equal(m[i], g) {
				t.Errorf("rank %d: gradient %d is %v, want rank 1's %v", rank, i, m[i], g)
			}
		}
		return g.Barrier(ctx)
	})
	want := []string{"0 p2 false", "1 p1 false", "p2", "2 p0 true", "p1", "p0"}
	for rank, got := range orders {
		if !slices.Equal(got, want) {
			t.Errorf("rank %d: %q, want %q", rank, got, want)
		}
	}
}

// TestHookFails: a hook's error ends the step on all ranks, at once, and names the bucket.
func TestHookFails(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for name, fail := range map[string]func(b *ddp.Bucket) ddp.Future{
		"at once": func(*ddp.Bucket) ddp.Future { return ddp.Failed(boom) },
		"at the end": func(b *ddp.Bucket) ddp.Future {
			b.AllReduce(b.Tensor())
			return ddp.Finally(func() error { return boom })
		},
		"later": func(b *ddp.Bucket) ddp.Future {
			b.AllReduce(b.Tensor())
			return ddp.Then(func() ddp.Future { return ddp.Failed(boom) })
		},
	} {
		w := pgtest.MemoryWorld(t, 2, nil)
		err := w.Try(func(ctx context.Context, rank int, g *pg.Group) error {
			red, err := ddp.New(ddp.Over(g), newModel([]int{2, 4, 3}, rank, 0).params(), ddp.Options{BucketBytes: 16, Hook: ddp.HookFunc(func(b *ddp.Bucket) ddp.Future {
				switch {
				case b.Index() == 0: // without an op: nothing but the failure holds bucket 2 back
					return ddp.Future{}
				case rank == 1 && b.Index() == 1:
					return fail(b)
				}
				if name == "at once" && rank == 1 && b.Index() > 1 {
					t.Error("bucket 2 is launched after the hook of bucket 1 failed")
				}
				b.AllReduce(b.Tensor())
				return ddp.Then(func() ddp.Future {
					b.AllReduce(b.Tensor())
					return ddp.Future{}
				})
			})})
			if err != nil {
				return err
			}
			err = red.Reduce(ctx)
			if err == nil || rank == 1 && (!errors.Is(err, boom) || !strings.Contains(err.Error(), "hook of bucket 1")) {
				t.Errorf("%s: rank %d: %v, want boom of bucket 1", name, rank, err)
			}
			return err
		})
		if err == nil {
			t.Errorf("%s: the step is good", name)
		}
	}
}

// TestHookErrorsGoToTheManager: under a manager a hook's error is reported, not returned.
func TestHookErrorsGoToTheManager(t *testing.T) {
	t.Parallel()
	_, ranks := newWorld(1)
	boom := errors.New("boom")
	red, err := ddp.New(ranks[0], newModel([]int{2}, 0, 0).params(), ddp.Options{
		Hook: ddp.HookFunc(func(*ddp.Bucket) ddp.Future { return ddp.Failed(boom) }),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := red.Reduce(t.Context()); err != nil || len(ranks[0].reports) != 1 || !errors.Is(ranks[0].reports[0], boom) {
		t.Errorf("reduce: %v, reports %v, want one of boom", err, ranks[0].reports)
	}
}

func BenchmarkStep(b *testing.B) {
	for name, hook := range map[string]func([]ddp.Param) ddp.Hook{
		"average": func([]ddp.Param) ddp.Hook { return nil },
		"fp16":    func([]ddp.Param) ddp.Hook { return must(ddp.NewCompress(tensor.Float16, nil)) },
		"powersgd": func(p []ddp.Param) ddp.Hook {
			return must(powersgd.New(p, powersgd.Config{Rank: 2}))
		},
	} {
		b.Run(name+"/bytes=4MiB/world=1", func(b *testing.B) {
			g := pg.NewGroup(dummy.New())
			if err := g.Configure(b.Context(), pg.Config{ReplicaIDs: []string{"a"}, Cluster: "c", QuorumID: 1}); err != nil {
				b.Fatal(err)
			}
			grad := tensor.New(tensor.Float32, 1024, 1024)
			for i := range grad.Len() {
				tensor.Slice[float32](grad)[i] = float32(i % 7)
			}
			params := []ddp.Param{{Name: "w", Grad: grad}}
			red, err := ddp.New(ddp.Over(g), params, ddp.Options{Hook: hook(params)})
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(4 << 20)
			b.ReportAllocs()
			for b.Loop() {
				red.Ready(0)
				if err := red.Reduce(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestHookFailsAsContextEnds: the others do not wait for what a rank has not started whose hook has failed,
// though its ctx has ended, too.
func TestHookFailsAsContextEnds(t *testing.T) {
	t.Parallel()
	w := pgtest.MemoryWorld(t, 2, nil)
	err := w.Try(func(ctx context.Context, rank int, g *pg.Group) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		hook := ddp.HookFunc(func(b *ddp.Bucket) ddp.Future {
			if rank == 0 {
				cancel()
				return ddp.Failed(errors.New("boom"))
			}
			return ddp.AllReduce{}.Reduce(b)
		})
		red, err := ddp.New(ddp.Over(g), newModel([]int{2, 4}, rank, 0).params(), ddp.Options{Hook: hook, NoRebuild: true})
		if err != nil {
			return err
		}
		if err = red.Reduce(ctx); err == nil {
			t.Errorf("rank %d: the step is whole", rank)
		}
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "boom") {
		t.Errorf("%v, want what the hook says", err)
	}
}
