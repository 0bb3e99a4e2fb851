package localsgd_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/dist/quant"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/tensor"
	"github.com/skerry-ft/skerry/train/localsgd"
)

// bare is a world without decorators.
func bare(t *testing.T, ranks int) *pgtest.World {
	t.Helper()
	return pgtest.MemoryWorld(t, ranks, func(b pg.Backend) pg.Backend { return b })
}

var nesterov = localsgd.SGD{Rate: 0.7, Momentum: 0.9, Nesterov: true}

// algorithm is one under test.
type algorithm struct {
	sizes     sizes
	every     int
	outer     *localsgd.SGD // nil: LocalSGD
	delay     int
	alpha     float32
	rounds    int64
	reduction localsgd.Reduction
}

func (a algorithm) make(m localsgd.Manager, x model) (*localsgd.Averager, error) {
	if a.outer == nil {
		return localsgd.NewLocalSGD(m, x.params()[0], localsgd.Config{Every: a.every, Rounds: a.rounds, Reduction: a.reduction})
	}
	return localsgd.NewDiLoCo(m, x.params(), localsgd.DiLoCoConfig{
		Every: a.every, Rounds: a.rounds, Outer: *a.outer, Delay: a.delay, Alpha: a.alpha, Reduction: a.reduction,
	})
}

func (a algorithm) reference(ranks int) *reference {
	r := newReference(a.sizes, ranks)
	r.outer, r.period, r.delay, r.alpha = a.outer, a.every/len(a.sizes), a.delay, float64(a.alpha)
	return r
}

func algorithms() map[string]algorithm {
	one, three := sizes{{3, 1, 5}}, sizes{{3, 1}, {4}, {2, 2}}
	small := localsgd.Reduction{BucketBytes: 12}
	return map[string]algorithm{
		"LocalSGD":            {sizes: one, every: 3},
		"LocalSGD each step":  {sizes: one, every: 1, reduction: small},
		"DiLoCo":              {sizes: one, every: 4, outer: &nesterov, reduction: small},
		"DiLoCo, plain":       {sizes: one, every: 2, outer: &localsgd.SGD{Rate: 1}},
		"DiLoCo, momentum":    {sizes: one, every: 2, outer: &localsgd.SGD{Rate: 0.5, Momentum: 0.8}},
		"DiLoCo, late":        {sizes: one, every: 4, outer: &nesterov, delay: 3, alpha: 0.25},
		"streaming":           {sizes: three, every: 6, outer: &nesterov},
		"streaming, late":     {sizes: three, every: 9, outer: &nesterov, delay: 1, reduction: small},
		"streaming, blending": {sizes: three, every: 9, outer: &nesterov, delay: 2, alpha: 0.75},
	}
}

// commits of every algorithm's rounds: some are discarded.
func mostly(try int) bool { return try%4 != 2 }

// Live and global parameters are those of the reference, after each inner step.
func TestAlgorithmsFollowTheReference(t *testing.T) {
	t.Parallel()
	for name, a := range algorithms() {
		for ranks := 1; ranks <= 3; ranks++ {
			t.Run(fmt.Sprintf("%s, ranks %d", name, ranks), func(t *testing.T) {
				t.Parallel()
				a.follow(t, ranks)
			})
		}
	}
}

func (a algorithm) follow(t *testing.T, ranks int) {
	bare(t, ranks).Each(func(ctx context.Context, rank int, g *pg.Group) error {
		m, x, ref := &fake{group: g, commits: mostly}, a.sizes.fresh(), a.reference(ranks)
		d, err := a.make(m, x)
		if err != nil {
			return err
		}
		defer d.Close()
		for step := range 60 {
			if err := d.Begin(ctx); err != nil {
				return err
			}
			x.learn(rank, step)
			before := m.tries
			committed, err := d.Step(ctx)
			if err != nil {
				return err
			}
			ref.inner(mostly(m.tries))
			if m.moves != step+1 {
				return fmt.Errorf("the manager was told of %d of %d inner steps", m.moves, step+1)
			}
			if want := m.tries > before && mostly(m.tries); committed != want {
				return fmt.Errorf("inner step %d: committed %t, want %t", step, committed, want)
			}
			if err := errors.Join(
				near(x.flat(), ref.live[rank]), near(a.sizes.globals(d.State()), ref.global),
			); err != nil {
				return fmt.Errorf("rank %d after inner step %d: %w", rank, step, err)
			}
			if d.Rounds() != int64(ref.round) {
				return fmt.Errorf("%d rounds, want %d", d.Rounds(), ref.round)
			}
		}
		return errors.Join(m.reported...)
	})
}

func near(got [][]float32, want matrix) error {
	for f := range want {
		for i, v := range want[f] {
			if math.Abs(float64(got[f][i])-v) > 2e-5*(1+math.Abs(v)) {
				return fmt.Errorf("element %d of fragment %d is %v, want %v", i, f, got[f][i], v)
			}
		}
	}
	return nil
}

// torchft's buckets left tensors out where one did not fit, or was larger than a bucket.
func TestEveryElementOnce(t *testing.T) {
	t.Parallel()
	for _, s := range [][]int{{6, 6}, {30, 2, 2}, {1}, {10}, {11, 0, 9}, {0}} {
		for _, bucketBytes := range []int{1, 10, 40, 44, 0} { // torchft's cap is 10 elements: 40 bytes
			for _, q := range []*quant.Options{nil, {Row: 4}, {Format: quant.E4M3, Row: 3}} {
				reduceOnce(t, s, localsgd.Reduction{BucketBytes: bucketBytes, Quantize: q})
			}
		}
	}
}

func reduceOnce(t *testing.T, s []int, r localsgd.Reduction) {
	t.Helper()
	bare(t, 2).Each(func(ctx context.Context, rank int, g *pg.Group) error {
		x := sizes{s}.fresh()
		d, err := localsgd.NewLocalSGD(&fake{group: g}, x.params()[0], localsgd.Config{Every: 1, Reduction: r})
		if err != nil {
			return err
		}
		want := 0
		for _, values := range x[0] {
			for i := range values {
				want++
				values[i] = float32(want) * float32(1+2*rank) // of 1 and 3: the average is twice it
			}
		}
		if _, err := d.Step(ctx); err != nil {
			return err
		}
		at, off := 0, 0.0
		if r.Quantize != nil {
			off = 0.1
		}
		for p, values := range x[0] {
			for i, v := range values {
				at++
				if math.Abs(float64(v)-2*float64(at)) > off*float64(want)+1e-6 || v == 0 {
					return fmt.Errorf("sizes %v, %+v: element %d of tensor %d is %v, want %v", s, r, i, p, v, 2*at)
				}
			}
		}
		return nil
	})
}

// counted is a backend that adds up what its ops are given.
type counted struct {
	*pg.Layer

	sent quant.Sent
}

func (c *counted) Submit(op *pg.Op) *pg.Work {
	s := quant.Sent{Ops: 1}
	for _, in := range op.In {
		s.Bytes += int64(in.NumBytes())
	}
	c.sent = c.sent.Add(s)
	return c.Unwrap().Submit(op)
}

// Sent is what the ops of a round were really given.
func TestSent(t *testing.T) {
	t.Parallel()
	for name, a := range algorithms() {
		for _, q := range []*quant.Options{nil, {Row: 4}} {
			t.Run(fmt.Sprintf("%s, quantised %t", name, q != nil), func(t *testing.T) {
				t.Parallel()
				own := a // the two that differ in q run side by side
				own.reduction.Quantize = q
				own.count(t)
			})
		}
	}
}

func (a algorithm) count(t *testing.T) {
	var backends []*counted
	w := pgtest.MemoryWorld(t, 3, func(b pg.Backend) pg.Backend {
		c := &counted{Layer: pg.NewLayer(b)}
		backends = append(backends, c)
		return c
	})
	for _, b := range backends {
		b.sent = quant.Sent{}
	}
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		d, err := a.make(&fake{group: g}, a.sizes.fresh())
		if err != nil {
			return err
		}
		var sum quant.Sent
		for range 3 * a.every {
			rounds := d.Rounds()
			if _, err := d.Step(ctx); err != nil {
				return err
			}
			if d.Rounds() > rounds {
				sum = sum.Add(d.Sent())
			}
		}
		if got := backends[rank].sent; got != sum || got.Bytes == 0 {
			return fmt.Errorf("ops were given %+v, Sent says %+v", got, sum)
		}
		return nil
	})
}

// Quantised rounds leave the same bytes on all ranks, near the exact ones.
func TestQuantisedRounds(t *testing.T) {
	t.Parallel()
	for _, f := range []quant.Format{quant.Int8, quant.E4M3} {
		a := algorithm{sizes: sizes{{40}, {7, 9}}, every: 4, outer: &nesterov, delay: 1,
			reduction: localsgd.Reduction{Quantize: &quant.Options{Format: f, Row: 8}, BucketBytes: 70}}
		states := make([]checkpoint.State, 3)
		bare(t, 3).Each(func(ctx context.Context, rank int, g *pg.Group) error {
			x, ref := a.sizes.fresh(), a.reference(3)
			d, err := a.make(&fake{group: g}, x)
			if err != nil {
				return err
			}
			defer d.Close()
			for step := range 12 {
				x.learn(rank, step)
				ref.inner(true)
				if _, err := d.Step(ctx); err != nil {
					return err
				}
			}
			states[rank] = d.State()
			for f, row := range a.sizes.globals(d.State()) {
				for i, v := range row {
					if math.Abs(float64(v)-ref.global[f][i]) > 0.5 {
						return fmt.Errorf("element %d of fragment %d is %v, exactly %v", i, f, v, ref.global[f][i])
					}
				}
			}
			return nil
		})
		for rank := range states {
			for name, x := range states[rank].Tensors {
				if !reflect.DeepEqual(x.Bytes(), states[0].Tensors[name].Bytes()) {
					t.Errorf("%v: ranks 0 and %d hold other bytes of %s", f, rank, name)
				}
			}
		}
	}
}

// A round that moves each parameter by far less than a step of eight bits does over the parameters'
// own range moves it all the same, round after round, by either algorithm.
func TestSmallUpdatesSurviveQuantising(t *testing.T) {
	t.Parallel()
	const rounds, rate = 200, 1e-4
	for _, f := range []quant.Format{quant.Int8, quant.E4M3} {
		for name, outer := range map[string]*localsgd.SGD{"LocalSGD": nil, "DiLoCo": {Rate: 1}} {
			a := algorithm{sizes: sizes{{20}}, every: 1, outer: outer,
				reduction: localsgd.Reduction{Quantize: &quant.Options{Format: f, Row: 8}}}
			bare(t, 2).Each(func(ctx context.Context, rank int, g *pg.Group) error {
				x := a.sizes.fresh()
				d, err := a.make(&fake{group: g}, x)
				if err != nil {
					return err
				}
				for range rounds {
					for i := range x[0][0] {
						x[0][0][i] += rate * float32(1+i%2) * float32(2*rank) // on average once or twice the rate
					}
					if _, err := d.Step(ctx); err != nil {
						return err
					}
				}
				for i, first := range a.sizes.fresh()[0][0] {
					want := rounds * rate * float64(1+i%2)
					if got := float64(x[0][0][i] - first); math.Abs(got-want) > 0.1*want {
						return fmt.Errorf("%v, %s: element %d has moved by %v, want %v", f, name, i, got, want)
					}
				}
				return nil
			})
		}
	}
}

// Parameters of 16 bits have a global state in float32, and one that stands still is not
// moved by what its dtype cannot hold.
func TestHalves(t *testing.T) {
	t.Parallel()
	bare(t, 2).Each(func(ctx context.Context, rank int, g *pg.Group) error {
		x := []tensor.BF16{tensor.NewBF16(1), tensor.NewBF16(2)}
		y := []tensor.F16{tensor.NewF16(1)}
		m := &fake{group: g}
		d, err := localsgd.NewDiLoCo(m, [][]localsgd.Param{{{"x", tensor.Of(x)}, {"y", tensor.Of(y)}}},
			localsgd.DiLoCoConfig{Every: 1, Outer: localsgd.SGD{Rate: 0.001}})
		if err != nil {
			return err
		}
		x[0], y[0] = tensor.NewBF16(float32(2+rank)), tensor.NewF16(float32(2+rank))
		if _, err := d.Step(ctx); err != nil {
			return err
		}
		for range 100 {
			if err := d.Idle(ctx); err != nil {
				return err
			}
		}
		s := d.State().Tensors
		global := append(tensor.Slice[float32](s["global.x"]), tensor.Slice[float32](s["global.y"])...)
		for i, want := range []float32{1.0015, 2, 1.0015} {
			if math.Abs(float64(global[i]-want)) > 1e-6 {
				return fmt.Errorf("global %d is %v, want %v", i, global[i], want)
			}
		}
		if x[0] != tensor.NewBF16(global[0]) || x[1].Float32() != 2 || y[0] != tensor.NewF16(global[2]) {
			return fmt.Errorf("live are %v, %v and %v", x[0].Float32(), x[1].Float32(), y[0].Float32())
		}
		return nil
	})
}

// Beyond its rounds nothing changes.
func TestDone(t *testing.T) {
	t.Parallel()
	for name, a := range algorithms() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a.rounds = 5
			bare(t, 2).Each(func(ctx context.Context, rank int, g *pg.Group) error {
				m, x := &fake{group: g}, a.sizes.fresh()
				d, err := a.make(m, x)
				if err != nil {
					return err
				}
				for step := 0; !d.Done(); step++ {
					x.learn(rank, step)
					if _, err := d.Step(ctx); err != nil {
						return err
					}
				}
				before := copyOf(a.sizes.globals(d.State()))
				for range 4 {
					if err := d.Idle(ctx); err != nil {
						return err
					}
				}
				moves := m.moves
				committed, err := d.Step(ctx)
				if !errors.Is(err, localsgd.ErrDone) || committed || m.step != 9 || m.moves != moves || d.Rounds() != 5 {
					return fmt.Errorf("committed %t, step %d, %d rounds: %w, want ErrDone", committed, m.step, d.Rounds(), err)
				}
				if !reflect.DeepEqual(before, a.sizes.globals(d.State())) {
					return errors.New("rounds beyond the last have changed the global parameters")
				}
				return nil
			})
		})
	}
}

func copyOf(m [][]float32) [][]float32 {
	var c [][]float32
	for _, row := range m {
		c = append(c, append([]float32(nil), row...))
	}
	return c
}

// A heal makes all live parameters the global ones; a round that begins by one starts
// without inner steps.
func TestHealInBegin(t *testing.T) {
	t.Parallel()
	a := algorithm{sizes: sizes{{2}, {3}}, every: 4, outer: &nesterov}
	m, x := &fake{group: bare(t, 1).Groups[0]}, a.sizes.fresh()
	d, err := a.make(m, x)
	if err != nil {
		t.Fatal(err)
	}
	m.starting = func() error {
		for name, v := range m.save().Tensors {
			if strings.HasPrefix(name, "global.") {
				for i := range tensor.Slice[float32](v) {
					tensor.Slice[float32](v)[i] = 42
				}
			}
		}
		m.starting = nil
		return m.load(m.save())
	}
	for step := range 3 {
		x.learn(0, step)
		if _, err := d.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
		if step == 0 && (x[0][0][1] != 42 || x[1][0][2] != 42) {
			t.Errorf("live parameters are %v after the heal, want 42", x)
		}
		if want := max(step-1, 0); m.tries != want {
			t.Errorf("%d rounds ended after %d inner steps, of which the heal took one, want %d", m.tries, step+1, want)
		}
	}
}

// A heal beside the round installs the global parameters before its commit, which then
// is upon them; nothing is left of what the replica had.
func TestHealBesideARound(t *testing.T) {
	t.Parallel()
	a := algorithm{sizes: sizes{{2}, {2}}, every: 2, outer: &localsgd.SGD{Rate: 1}, alpha: 0.5}
	m, x := &fake{group: bare(t, 1).Groups[0]}, a.sizes.fresh()
	d, err := a.make(m, x)
	if err != nil {
		t.Fatal(err)
	}
	m.ending = func() {
		for _, name := range []string{"global.p0.0", "global.p1.0"} {
			v := tensor.Slice[float32](m.save().Tensors[name])
			v[0], v[1] = 100, 200
		}
		m.step = 6 // of which the commit is the seventh: of fragment 0
		c := tensor.Slice[int64](m.save().Tensors["counters"])
		c[0], c[1], c[2] = 6, 3, 3
		if err := m.load(m.save()); err != nil {
			t.Error(err)
		}
	}
	away := x[0][0][0] // of what is reduced: global − live
	x[0][0][0], x[1][0][1] = away-1, 77
	if ok, err := d.Step(t.Context()); err != nil || !ok {
		t.Fatal(ok, err)
	}
	if got := x.flat(); !reflect.DeepEqual(got, [][]float32{{99, 200}, {100, 200}}) || d.Rounds() != 7 {
		t.Errorf("live parameters are %v after %d rounds", got, d.Rounds())
	}
	if !reflect.DeepEqual(x.flat(), a.sizes.globals(d.State())) {
		t.Errorf("global parameters are %v, live ones %v", a.sizes.globals(d.State()), x.flat())
	}
}

// Errors of the manager end a round, and come back.
func TestErrors(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	a := algorithm{sizes: sizes{{2}}, every: 1}
	m, x := &fake{group: bare(t, 1).Groups[0]}, a.sizes.fresh()
	d, err := a.make(m, x)
	if err != nil {
		t.Fatal(err)
	}
	m.starting = func() error { return boom }
	if _, err := d.Step(t.Context()); !errors.Is(err, boom) {
		t.Errorf("step whose StartQuorum fails: %v", err)
	}
	m.starting, m.endErr = nil, boom
	x[0][0][0] = 9
	if ok, err := d.Step(t.Context()); !errors.Is(err, boom) || ok || x[0][0][0] != 0 {
		t.Errorf("step whose ShouldCommit fails: %t, %v; live %v, want it back at 0", ok, err, x)
	}
	m.endErr = nil
	m.group.Abort(boom)
	m.commits = func(int) bool { return len(m.reported) == 0 }
	if ok, err := d.Step(t.Context()); err != nil || ok || len(m.reported) != 1 || !errors.Is(m.reported[0], boom) {
		t.Errorf("step whose reduction fails: %t, %v, reported %v", ok, err, m.reported)
	}
}

// The end of ctx, and Close, end a reduction that waits for a peer.
func TestReductionsEnd(t *testing.T) {
	t.Parallel()
	a := algorithm{sizes: sizes{{2}}, every: 2, outer: &nesterov, delay: 1}
	for name, last := range map[string]func(t *testing.T, d *localsgd.Averager){
		"close": func(t *testing.T, d *localsgd.Averager) {
			if err := errors.Join(d.Close(), d.Close()); err != nil {
				t.Error(err)
			}
		},
		"ctx": func(t *testing.T, d *localsgd.Averager) {
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(errors.New("enough"))
			if ok, err := d.Step(ctx); ok || err != nil { // the fake discards it
				t.Errorf("step whose ctx has ended: %t, %v", ok, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &fake{group: bare(t, 2).Groups[0], commits: func(int) bool { return false }}
			d, err := a.make(m, a.sizes.fresh())
			if err != nil {
				t.Fatal(err)
			}
			if ok, err := d.Step(t.Context()); ok || err != nil {
				t.Fatal(ok, err)
			}
			last(t, d)
			if m.group.Err() == nil {
				t.Error("the group is whole, want it aborted")
			}
		})
	}
}
