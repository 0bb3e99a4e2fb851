package worlds

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/tensor"
)

// runner is a trainer that has an end: it learns for so many steps, and finishes.
type runner struct {
	p      *proc
	steps  int64
	linger time.Duration
	model  []float32 // registered: how many steps it has had
	ended  atomic.Bool
}

func newRunner(p *proc, steps int64, linger time.Duration) *runner {
	r := &runner{p: p, steps: steps, linger: linger, model: make([]float32, 4)}
	if err := p.m.Register("runner", func() checkpoint.State { return stateOf(r.model) }, nil); err != nil {
		p.w.t.Fatal(err)
	}
	return r
}

// turn is one step, and all of the end once the steps have been made.
func (r *runner) turn(ctx context.Context) error {
	if r.p.m.Step() < r.steps {
		return r.step(ctx)
	}
	r.p.mu.Lock()
	r.p.mu.leaves = true // from now on, when it likes
	r.p.mu.Unlock()
	err := r.p.m.Finish(ctx, r.linger, r.step)
	if err != nil {
		return err
	}
	r.ended.Store(true)
	r.p.w.book.note(r.p.name, "finished")
	<-ctx.Done()
	return ctx.Err()
}

func (r *runner) step(ctx context.Context) error {
	err := r.p.m.StartQuorum(ctx)
	if err != nil {
		return err
	}
	grad := []float32{1, 1, 1, 1}
	if err := wait(ctx, r.p.r.manners.forward); err != nil {
		return err
	}
	_ = r.p.m.Group().AllReduce(ctx, tensor.Of(grad), tensor.Avg) // reported
	committed, err := r.p.m.ShouldCommit(ctx)
	if committed && r.p.m.Step() <= r.steps {
		for i, g := range grad {
			r.model[i] += g
		}
	}
	r.p.atRest(committed)
	return err
}

// TestWorldRunsFinishTogether: a replica dies three steps before the end, and another
// in the middle of finishing; both come back, heal to the last step, and all end well,
// with the same model.
func TestWorldRunsFinishTogether(t *testing.T) {
	t.Parallel()
	inWorld(t, usual(), func(w *world) {
		const steps, linger = 50, 5 * time.Second
		runners := make(map[*proc]*runner)
		m := quick()
		m.trains = func(p *proc) func(context.Context) error {
			r := newRunner(p, steps, linger)
			runners[p] = r
			return r.turn
		}
		all := w.replicas(3, m)
		if !w.reach(steps-3, time.Minute, all...) {
			return
		}
		all[2].kill()
		all[2].start()
		if !w.reach(steps+5, time.Minute, all...) {
			return
		}
		all[0].kill()
		time.Sleep(time.Second)
		all[0].start()
		for _, r := range all {
			run := runners[r.ranks[0]]
			if !w.within(time.Minute, r.name+" finishes", run.ended.Load) {
				return
			}
			for _, v := range run.model {
				if v != steps {
					t.Errorf("%s: a model of %v steps, want %d", r.name, v, steps)
				}
			}
		}
	})
}
