package worlds

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/manager"
	"github.com/skerry-ft/skerry/tensor"
	"github.com/skerry-ft/skerry/train/ddp"
	"github.com/skerry-ft/skerry/train/ddp/powersgd"
)

// averager is a trainer whose gradients are averaged by a Reducer with a hook, and become
// ready in an order that each rank draws for each step.
type averager struct {
	p         *proc
	red       *ddp.Reducer
	low       *powersgd.Hook // or nil
	weights   [][]float32    // registered
	grads     [][]float32
	order     *rand.Rand
	discarded atomic.Int64
}

// averaging is a way to average.
type averaging struct {
	powersgd, half, loose bool // loose: neither the Reducer nor its hook is registered
	averagers             map[*proc]*averager
}

// averagerShapes are a model of which two gradients are matrices; buckets hold two or three.
var averagerShapes = [][]int{{8, 6}, {8}, {5, 9}, {3}, {4}}

func (a *averaging) newAverager(p *proc) *averager {
	l := &averager{p: p, order: rand.New(rand.NewPCG(uint64(p.r.index), uint64(p.life)))}
	var params []ddp.Param
	for i, shape := range averagerShapes {
		n, err := tensor.Elements(tensor.Float32, shape)
		if err != nil {
			p.w.t.Fatal(err)
		}
		l.weights, l.grads = append(l.weights, make([]float32, n)), append(l.grads, make([]float32, n))
		grad, err := tensor.Of(l.grads[i]).Reshape(shape...)
		if err != nil {
			p.w.t.Fatal(err)
		}
		params = append(params, ddp.Param{Name: fmt.Sprint("w", i), Grad: grad})
	}
	hook, err := a.hook(l, params)
	if err != nil {
		p.w.t.Fatal(err)
	}
	if l.red, err = ddp.New(p.m, params, ddp.Options{Hook: hook, BucketBytes: 250, FirstBucketBytes: 60}); err != nil {
		p.w.t.Fatal(err)
	}
	err = p.m.Register("weights", func() checkpoint.State {
		s := checkpoint.State{Tensors: map[string]tensor.Tensor{}}
		for i, w := range l.weights {
			s.Tensors[params[i].Name] = tensor.Of(w)
		}
		return s
	}, nil)
	if !a.loose {
		err = errors.Join(err, p.m.Register("ddp", l.red.State, l.red.Load))
	}
	if l.low != nil && !a.loose {
		err = errors.Join(err, p.m.Register("powersgd", l.low.State, l.low.Load),
			p.m.RegisterWith("powersgd-errors", l.low.Errors, nil, manager.StateOptions{Local: true}))
	}
	if err != nil {
		p.w.t.Fatal(err)
	}
	return l
}

func (a *averaging) hook(l *averager, params []ddp.Param) (hook ddp.Hook, err error) {
	if a.powersgd {
		if l.low, err = powersgd.New(params, powersgd.Config{Rank: 2, Start: 12, MinRate: 1}); err != nil {
			return nil, err
		}
		hook = l.low
	}
	if a.half {
		return ddp.NewCompress(tensor.BFloat16, hook)
	}
	return hook, nil
}

// turn is a step as ddp's doc.go has it.
func (l *averager) turn(ctx context.Context) error {
	m := l.p.m
	l.p.pass(ctx, stagePause)
	err := m.StartQuorum(ctx)
	if err != nil || !m.IsHealing() {
		l.p.atRest(false)
	}
	if err != nil {
		return err
	}
	l.p.pass(ctx, stageStarted)
	for i, g := range l.grads {
		for j := range g {
			g[j] = own(l.p.r.index, l.p.rank, m.Step(), i+j)/97 + l.weights[i][j]/8
		}
	}
	for _, i := range l.order.Perm(len(l.grads)) {
		if err := wait(ctx, 2*time.Millisecond); err != nil {
			return err
		}
		l.red.Ready(i)
	}
	if err := l.red.Reduce(ctx); err != nil {
		return err
	}
	l.p.pass(ctx, stageBallot)
	committed, err := m.ShouldCommit(ctx)
	if committed {
		for i, g := range l.grads {
			for j := range g {
				l.weights[i][j] -= g[j] / 4
			}
		}
		copy(l.p.params, l.weights[0])
		l.red.Commit()
	} else {
		l.discarded.Add(1)
	}
	l.p.atRest(committed)
	return err
}

func (a *averaging) manners() manners {
	return manners{trains: func(p *proc) func(context.Context) error {
		l := a.newAverager(p)
		a.averagers[p] = l
		return l.turn
	}}
}

// TestWorldAveraging: replicas die and come back, in every part of a step, while buckets are rebuilt by
// order of arrival and gradients are compressed. Whatever a newcomer holds, no step of
// a whole quorum is discarded, and all end with the same bytes.
func TestWorldAveraging(t *testing.T) {
	t.Parallel()
	for name, a := range map[string]averaging{
		"average":                {},
		"bfloat16":               {half: true},
		"powersgd":               {powersgd: true},
		"bfloat16 and powersgd":  {half: true, powersgd: true},
		"average, unregistered":  {loose: true},
		"powersgd, unregistered": {powersgd: true, loose: true},
		"powersgd, two each":     {powersgd: true},
		"bfloat16, unregistered": {half: true, loose: true},
	} {
		size := 1
		if name == "powersgd, two each" {
			size = 2
		}
		t.Run(name, func(t *testing.T) {
			inWorld(t, usual(), func(w *world) { averageThroughDeaths(w, &a, size) })
		})
	}
}

func averageThroughDeaths(w *world, a *averaging, size int) {
	a.averagers = make(map[*proc]*averager)
	draw := rand.New(rand.NewPCG(uint64(size), 3))
	var all []*replica
	for i := range 3 {
		all = append(all, w.replica(string(rune('a'+i)), i, size, a.manners()).start())
	}
	w.reach(20, time.Minute, all...)
	for range 10 {
		i := draw.IntN(len(all))
		all[i].kill()
		time.Sleep(between(draw, time.Millisecond, 100*time.Millisecond))
		all[i].start()
		if !w.reach(newestOf(all)+int64(draw.IntN(8)), time.Minute, all...) {
			return
		}
	}
	if !w.reach(newestOf(all)+10, time.Minute, all...) { // all are there
		return
	}
	before := a.discarded(all)
	if !w.reach(newestOf(all)+30, time.Minute, all...) {
		return
	}
	if after := a.discarded(all); after != before {
		w.t.Errorf("%d steps of a whole quorum were discarded", after-before)
	}
	last := newestOf(all)
	for _, r := range all {
		r.drainAll()
	}
	a.check(all, last)
}

// discarded is how many attempts the averagers have discarded.
func (a *averaging) discarded(all []*replica) int64 {
	n := int64(0)
	for _, r := range all {
		for _, p := range r.ranks {
			n += a.averagers[p].discarded.Load()
		}
	}
	return n
}

// check looks at what the averagers hold that ended at the same step.
func (a *averaging) check(all []*replica, least int64) {
	first := make(map[int64]*averager)
	for _, r := range all {
		for _, p := range r.ranks[:1] {
			l := a.averagers[p]
			if p.atStep() < least || !l.red.Stats().Rebuilt && !a.loose {
				a.fail(p, "ended at step %d, buckets rebuilt: %v", p.atStep(), l.red.Stats().Rebuilt)
			}
			if l.low != nil && l.low.Phase() < 13 {
				a.fail(p, "compressed nothing: %d steps count", l.low.Phase())
			}
			f, ok := first[p.atStep()]
			if !ok {
				first[p.atStep()] = l
				continue
			}
			if !slices.EqualFunc(f.weights, l.weights, slices.Equal) || !slices.Equal(f.red.Stats().BucketBytes, l.red.Stats().BucketBytes) {
				a.fail(p, "holds other weights or buckets than %s", f.p.name)
			}
		}
	}
}

func (a *averaging) fail(p *proc, format string, args ...any) {
	p.w.t.Errorf("%s: %s", p.name, fmt.Sprintf(format, args...))
}
