package ddp_test

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/tensor"
	"github.com/skerry-ft/skerry/train/ddp"
	"github.com/skerry-ft/skerry/train/ddp/powersgd"
)

// naive is PowerSGD of one gradient over all ranks at once, in matrices as they stand in
// the paper: rows of slices, no buckets, no scratch.
type naive struct {
	n, m, rank int
	q          [][]float32 // m x rank
	errs       [][]float32 // by rank of the world
	feedback   bool
}

// strands sums products in the order that the hook's doc has: in four strands.
func strands(n int, product func(i int) float32) float32 {
	var s [4]float32
	for i := range n {
		s[i%4] += product(i)
	}
	return (s[0] + s[1]) + (s[2] + s[3])
}

func rows(n, m int) [][]float32 {
	out := make([][]float32, n)
	for i := range out {
		out[i] = make([]float32, m)
	}
	return out
}

// averaged is the average over ranks of matrices, as an all-reduce folds it.
func averaged(all [][][]float32, sum bool) [][]float32 {
	out := rows(len(all[0]), len(all[0][0]))
	for i := range out {
		for j := range out[i] {
			v := all[0][i][j]
			for _, one := range all[1:] {
				v += one[i][j]
			}
			if !sum {
				v /= float32(len(all))
			}
			out[i][j] = v
		}
	}
	return out
}

// orthonormal makes the columns of a matrix orthonormal, by Gram-Schmidt.
func orthonormal(p [][]float32) {
	n, rank := len(p), len(p[0])
	for j := range rank {
		norm := float32(math.Sqrt(float64(strands(n, func(i int) float32 { return p[i][j] * p[i][j] }))))
		for i := range n {
			p[i][j] /= norm
		}
		for k := j + 1; k < rank; k++ {
			by := strands(n, func(i int) float32 { return p[i][j] * p[i][k] })
			for i := range n {
				p[i][k] += float32(-by * p[i][j])
			}
		}
	}
}

// step is one step: grads by rank, and each rank's share of a weighed one, or none.
func (x *naive) step(grads [][]float32, shares []float64) []float32 {
	unit := float32(1)
	if shares != nil {
		unit = 1 / float32(len(grads))
	}
	orthonormal(x.q)
	work := make([][]float32, len(grads))
	lefts, rights := make([][][]float32, len(grads)), make([][][]float32, len(grads))
	for r := range grads {
		work[r] = make([]float32, len(grads[r]))
		for i, g := range grads[r] {
			if shares != nil {
				g = float32(g * float32(shares[r]))
			}
			work[r][i] = g
			if x.feedback {
				work[r][i] += float32(unit * x.errs[r][i])
			}
		}
		lefts[r] = rows(x.n, x.rank)
		for i := range x.n {
			for j := range x.rank {
				lefts[r][i][j] = strands(x.m, func(k int) float32 { return work[r][i*x.m+k] * x.q[k][j] })
			}
		}
	}
	p := averaged(lefts, shares != nil)
	orthonormal(p)
	for r := range grads {
		rights[r] = rows(x.m, x.rank)
		for i := range x.n {
			for k := range x.m {
				for j := range x.rank {
					rights[r][k][j] += float32(p[i][j] * work[r][i*x.m+k])
				}
			}
		}
	}
	x.q = averaged(rights, shares != nil)
	out := make([]float32, x.n*x.m)
	for i := range x.n {
		for k := range x.m {
			for j := range x.rank {
				out[i*x.m+k] += float32(p[i][j] * x.q[k][j])
			}
		}
	}
	for r := range grads {
		share := float32(1)
		if shares != nil {
			share = float32(shares[r])
		}
		for i := range out {
			x.errs[r][i] = (work[r][i] + float32(-share*out[i])) / unit
		}
	}
	return out
}

// newNaive begins with the hook's own first factors.
func newNaive(h *powersgd.Hook, name string, n, m, rank, ranks int, feedback bool) *naive {
	x := &naive{n: n, m: m, rank: rank, q: rows(m, rank), errs: rows(ranks, n*m), feedback: feedback}
	flat := tensor.Slice[float32](h.State().Tensors["q."+name])
	for k := range m {
		for j := range rank {
			x.q[k][j] = flat[j*m+k]
		}
	}
	return x
}

// TestPowerSGDBytes: the bytes of every gradient in every step are those of the formula:
// before Start averages, then approximations with error memory and warm starts; of what is no matrix, averages.
func TestPowerSGDBytes(t *testing.T) {
	t.Parallel()
	const ranks, steps, start = 3, 6, 2
	uneven := func(step int) []int { return []int{1 + step, 2, 5 - step} }
	for name, c := range map[string]struct {
		cfg     powersgd.Config
		samples func(int) []int
	}{
		"rank 1":      {powersgd.Config{Start: start, Seed: 4, MinRate: 1}, nil},
		"rank 2":      {powersgd.Config{Start: start, Seed: 5, MinRate: 1, Rank: 2}, nil},
		"no feedback": {powersgd.Config{Start: start, Seed: 6, MinRate: 1, NoFeedback: true}, nil},
		"weighed":     {powersgd.Config{Start: start, Seed: 7, MinRate: 1}, uneven},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hook := func(params []ddp.Param) ddp.Hook { return must(powersgd.New(params, c.cfg)) }
			first := hook(shaped(gradients(0, 0))).(*powersgd.Hook)
			rank := max(c.cfg.Rank, 1)
			matrices := map[int]*naive{ // {6 8} and {3 20}; {2 2} does not shrink
				0: newNaive(first, "p0", 6, 8, rank, ranks, !c.cfg.NoFeedback),
				2: newNaive(first, "p2", 3, 20, rank, ranks, !c.cfg.NoFeedback),
			}
			got := reduced(t, ranks, steps, hook, c.samples)
			for step := range steps {
				var shares []float64
				if c.samples != nil {
					for _, n := range c.samples(step) {
						shares = append(shares, float64(n)/8)
					}
				}
				for i := range hookShapes {
					var grads [][]float32
					for r := range ranks {
						grads = append(grads, gradients(r, step)[i])
					}
					var want []float32
					if m := matrices[i]; m != nil && step >= start {
						want = m.step(grads, shares)
					} else {
						want = plainly(grads, shares)
					}
					if !slices.Equal(got[step][i], want) {
						t.Fatalf("step %d: gradient %d is\n%v, want\n%v", step, i, got[step][i], want)
					}
				}
			}
		})
	}
}

// plainly is the average, or the weighed sum.
func plainly(grads [][]float32, shares []float64) []float32 {
	all := make([][][]float32, len(grads))
	for r, g := range grads {
		all[r] = [][]float32{slices.Clone(g)}
		if shares != nil {
			for i := range g {
				all[r][0][i] *= float32(shares[r])
			}
		}
	}
	return averaged(all, shares != nil)[0]
}

// TestPowerSGDLosesNothing: what the results lack of the sum of all gradients so far is in
// the error memories, weighed or not, with and without compression to 16 bits around it.
func TestPowerSGDLosesNothing(t *testing.T) {
	t.Parallel()
	const ranks, steps = 2, 20
	for name, wrap := range map[string]func(h ddp.Hook) ddp.Hook{
		"float32":  func(h ddp.Hook) ddp.Hook { return h },
		"bfloat16": func(h ddp.Hook) ddp.Hook { return must(ddp.NewCompress(tensor.BFloat16, h)) },
	} {
		var lock sync.Mutex
		hooks := make([]*powersgd.Hook, 0, ranks)
		got := reduced(t, ranks, steps, func(params []ddp.Param) ddp.Hook {
			h := must(powersgd.New(params, powersgd.Config{MinRate: 1}))
			lock.Lock()
			defer lock.Unlock()
			hooks = append(hooks, h)
			return wrap(h)
		}, func(step int) []int { return []int{1 + step%3, 3 - step%3} })
		var lack, want [48]float64
		for step := range steps {
			for i := range lack {
				for r, n := range []int{1 + step%3, 3 - step%3} {
					want[i] += float64(gradients(r, step)[0][i]) * float64(n) / 4
				}
				lack[i] = want[i]
			}
		}
		for i := range lack {
			for step := range steps {
				lack[i] -= float64(got[step][0][i])
			}
			for _, h := range hooks {
				lack[i] -= float64(tensor.Slice[float32](h.Errors().Tensors["error.p0"])[i]) / ranks
			}
			limit := 1e-4
			if name == "bfloat16" { // each gradient and each result is rounded, by 2^-9 of about 3
				limit = 0.3
			}
			if math.Abs(lack[i]) > limit {
				t.Errorf("%s: element %d: the results and errors lack %v of %v", name, i, lack[i], want[i])
			}
		}
	}
}

// TestPowerSGDInFloat16: what is sent is of the size of the gradients, not of their square, so that
// float16 holds it for small gradients and for large ones, step after step.
func TestPowerSGDInFloat16(t *testing.T) {
	t.Parallel()
	const ranks, steps = 2, 6
	for _, sigma := range []float32{1e-4, 1, 1e4} {
		w := pgtest.MemoryWorld(t, ranks, nil)
		w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
			grad := make([]float32, 8*10)
			params := []ddp.Param{{Name: "w", Grad: must(tensor.Of(grad).Reshape(8, 10))}}
			hook := must(powersgd.New(params, powersgd.Config{MinRate: 1, Rank: 2}))
			red, err := ddp.New(ddp.Over(g), params, ddp.Options{Hook: must(ddp.NewCompress(tensor.Float16, hook))})
			if err != nil {
				return err
			}
			for step := range steps {
				want := ofRankTwo(sigma)
				for i, v := range want {
					grad[i] = v * (0.75 + float32(rank)/2) // of which the average is v
				}
				red.Ready(0)
				if err := red.Reduce(ctx); err != nil {
					return err
				}
				for i, v := range want {
					if lack := math.Abs(float64(grad[i] - v)); !(lack <= 0.02*float64(sigma)) {
						t.Errorf("sigma %v, step %d, rank %d: element %d is %v, want %v", sigma, step, rank, i, grad[i], v)
						return g.Barrier(ctx)
					}
				}
			}
			return g.Barrier(ctx)
		})
	}
}

// ofRankTwo is a matrix of 8 by 10 of rank 2, with elements of sigma at most.
func ofRankTwo(sigma float32) []float32 {
	out := make([]float32, 80)
	for i := range out {
		out[i] = sigma * (float32(i/10%3)*float32(i%10%4)/6 - float32(i/10%2)/2)
	}
	return out
}

// TestPowerSGDDiscarded: a step that is discarded leaves no trace in the state, and is done
// again with the same bytes.
func TestPowerSGDDiscarded(t *testing.T) {
	t.Parallel()
	w := pgtest.MemoryWorld(t, 2, nil)
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		grads := gradients(rank, 0)
		h := must(powersgd.New(shaped(grads), powersgd.Config{MinRate: 1}))
		red, err := ddp.New(reporter{g}, shaped(grads), ddp.Options{Hook: h})
		if err != nil {
			return err
		}
		all := func() string {
			var b strings.Builder
			for _, s := range []checkpoint.State{h.State(), h.Errors()} {
				for _, name := range []string{"steps", "q.p0", "q.p2", "error.p0", "error.p2"} {
					b.Write(s.Tensors[name].Bytes())
				}
			}
			return b.String()
		}
		before, first := all(), []float32(nil)
		for try := range 3 {
			for i, g := range gradients(rank, 1) {
				copy(grads[i], g)
			}
			for i := range grads {
				red.Ready(i)
			}
			if err := red.Reduce(ctx); err != nil {
				t.Errorf("reduce: %v", err)
			}
			if first == nil {
				first = slices.Clone(grads[0])
			}
			if all() != before || !slices.Equal(grads[0], first) {
				t.Errorf("try %d: a discarded step changed the state, or the next one's bytes", try)
			}
		}
		red.Commit()
		if all() == before || h.Phase() != 1 {
			t.Errorf("a step that counts changed nothing; phase %d, want 1", h.Phase())
		}
		return g.Barrier(ctx)
	})
}

// reporter is a manager whose steps the test ends.
type reporter struct{ group *pg.Group }

func (r reporter) Group() *pg.Group  { return r.group }
func (r reporter) ReportError(error) {}

// TestPowerSGDOfZeros: gradients of zeros do not stop it from learning later ones.
func TestPowerSGDOfZeros(t *testing.T) {
	t.Parallel()
	_, ranks := newWorld(1)
	grad := tensor.New(tensor.Float32, 8, 8)
	params := []ddp.Param{{Name: "w", Grad: grad}}
	h := must(powersgd.New(params, powersgd.Config{MinRate: 1}))
	red, err := ddp.New(ddp.Over(ranks[0].group), params, ddp.Options{Hook: h})
	if err != nil {
		t.Fatal(err)
	}
	values := tensor.Slice[float32](grad)
	for step := range 4 {
		for i := range values {
			values[i] = float32(step/2) * float32(1+i/8) // of rank 1
		}
		red.Ready(0)
		if err := red.Reduce(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i, v := range values {
			if want := float64(step/2) * float64(1+i/8); math.Abs(float64(v)-want) > 1e-5 {
				t.Fatalf("step %d: element %d is %v, want %v", step, i, v, want)
			}
		}
	}
}

func TestPowerSGDRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cfg  powersgd.Config
		want string
	}{
		{powersgd.Config{Rank: -1}, "Rank = -1, want 0 to 1024"},
		{powersgd.Config{Start: -1}, "Start = -1, want 0 or more"},
		{powersgd.Config{MinRate: 0.5}, "MinRate = 0.5, want 1 or more"},
		{powersgd.Config{Epsilon: -1}, "Epsilon = -1, want 0 to 1"},
	} {
		if _, err := powersgd.New(nil, c.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.cfg, err, c.want)
		}
	}
	h := must(powersgd.New(shaped(gradients(0, 0)), powersgd.Config{MinRate: 1, Rank: 2}))
	if elements, sent := h.Compression(); elements != 48+60 || sent != 2*(14+23) {
		t.Errorf("%d elements are compressed to %d, want 108 to 74", elements, sent)
	}
	tensor.Slice[int64](h.State().Tensors["steps"])[0] = -1
	if err := h.Load(checkpoint.State{}); err == nil || !strings.Contains(err.Error(), "steps = -1") {
		t.Errorf("load: %v, want -1 steps refused", err)
	}
	_, ranks := newWorld(1)
	for _, params := range [][]ddp.Param{nil, shapesAs(t, 8, 6)} {
		grads := shapesAs(t, 4, 12)
		grads[0].Grad = must(tensor.Of(make([]float32, 48)).Reshape(6, 8))
		if params != nil {
			params[0].Grad = must(tensor.Of(make([]float32, 96)).Reshape(12, 8))
		}
		red, err := ddp.New(ddp.Over(ranks[0].group), grads, ddp.Options{Hook: must(powersgd.New(params, powersgd.Config{}))})
		if err != nil {
			t.Fatal(err)
		}
		if err := red.Reduce(t.Context()); err == nil || !strings.Contains(err.Error(), "hook was made for") {
			t.Errorf("other parameters: %v, want that said", err)
		}
	}
}

func shapesAs(t *testing.T, n, m int) []ddp.Param {
	t.Helper()
	return []ddp.Param{{Name: "w", Grad: must(tensor.Of(make([]float32, n*m)).Reshape(n, m))}}
}
