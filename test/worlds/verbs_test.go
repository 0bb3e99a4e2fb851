package worlds

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/dist"
	"github.com/skerry-ft/skerry/dist/object"
	"github.com/skerry-ft/skerry/manager"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// said is what a rank tells the others in a step.
func said(p *proc, step int64) []any { return []any{p.name, step, p.r.index} }

// metrics are verbs made of others, as a trainer that collects metrics calls them in each
// step, and what must be true of them.
type metrics struct {
	failed []error      // of the step under way; it must not be committed
	wrong  []error      // results; they must not be of a step that is committed
	from   int64        // the step that the attempt began at
	checks atomic.Int64 // steps that were committed with all of it right
}

// look runs all verbs, right after StartQuorum: nothing tells the trainer yet who takes
// part.
func (m *metrics) look(ctx context.Context, p *proc) {
	m.from = p.m.Step()
	m.failed, m.wrong = nil, nil
	g := p.m.Group()
	all, err := object.AllGather(ctx, g, said(p, m.from))
	if err != nil {
		m.failed = append(m.failed, err)
		return
	}
	step := all[0].([]any)[1].(int64) // who heals beside the step does not know it yet
	m.check(slices.IndexFunc(all, func(o any) bool { return o.([]any)[1] != step }) < 0, "gathered %v at step %d", all, m.from)
	rank := slices.IndexFunc(all, func(o any) bool { return o.([]any)[0] == p.name }) // -1: it heals
	ts := []tensor.Tensor{tensor.Of([]float32{1}), tensor.Of([]float32{1})}
	m.did(dist.AllReduceMulti(ctx, g, ts, tensor.Avg))
	m.check(tensor.Slice[float32](ts[0])[0] == 1 && tensor.Slice[float32](ts[1])[0] == 1, "average of ones of %d ranks is %v", len(all), tensor.Slice[float32](ts[0]))
	list := []any{p.name}
	m.did(object.Broadcast(ctx, g, list, 0))
	m.check(list[0] == all[0].([]any)[0], "broadcast of %v gave %v", all[0], list)
	back, err := object.Scatter(ctx, g, all, 0)
	m.slotted(err, rank, func() bool { return fmt.Sprint(back) == fmt.Sprint(all[rank]) }, "scattered %v", back)
	atRoot, err := object.Gather(ctx, g, p.name, 0)
	m.slotted(err, rank, func() bool { return len(atRoot) == len(all) || rank != 0 }, "gathered %v at the root", atRoot)
	uneven, err := dist.AllGatherUneven(ctx, g, tensor.Of(make([]float64, p.r.index+1)))
	m.did(err)
	m.check(err != nil || len(uneven) == len(all), "gathered %d uneven tensors, want %d", len(uneven), len(all))
	lists := [][]tensor.Tensor{make([]tensor.Tensor, len(all)), make([]tensor.Tensor, len(all))}
	for r := range all {
		lists[0][r], lists[1][r] = tensor.Of([]float32{1}), tensor.Of([]float32{3})
	}
	out := tensor.Of([]float32{0})
	err = dist.ReduceScatterMulti(ctx, g, lists, []tensor.Tensor{out}, tensor.Avg)
	m.slotted(err, rank, func() bool { return tensor.Slice[float32](out)[0] == 2 }, "scattered average %v, want 2", tensor.Slice[float32](out))
	if step%8 == 0 {
		sub, err := g.NewGroup(ctx, nil, pg.GroupOptions{Timeout: time.Second})
		m.did(err)
		if err == nil {
			m.did(sub.Destroy())
		}
	}
}

func (m *metrics) check(ok bool, format string, args ...any) {
	if !ok {
		m.wrong = append(m.wrong, fmt.Errorf(format, args...))
	}
}

func (m *metrics) did(err error) {
	if err != nil {
		m.failed = append(m.failed, err)
	}
}

// slotted is did and check for a verb with a slot per rank, which a member that heals has
// none in.
func (m *metrics) slotted(err error, rank int, ok func() bool, format string, args ...any) {
	switch {
	case rank < 0 && errors.Is(err, pg.ErrNotParticipating):
	case err != nil:
		m.failed = append(m.failed, err)
	default:
		m.check(rank >= 0 && ok(), format, args...)
	}
}

// end looks back at a step that is over.
func (m *metrics) end(p *proc) {
	if p.m.Step() == m.from || m.from == 0 { // discarded, or the states were different at first
		return
	}
	if len(m.failed)+len(m.wrong) > 0 {
		p.w.book.wrong("%s committed step %d with failed verbs %v and wrong results %v", p.name, p.m.Step(), m.failed, m.wrong)
	}
	m.checks.Add(1)
}

// A job that gathers objects and averages several tensors in each step goes on through
// kills and joins: what is committed is right, and a kill and a join cost a step each at most. (The
// join costs one where a verb has begun when its quorum comes: in one of a dozen runs.)
func TestWorldComposedVerbs(t *testing.T) {
	t.Parallel()
	for name, every := range map[string]bool{"standing": false, "every step": true} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, usual(), func(w *world) {
				var looks sync.Map // *metrics by *proc
				of := func(p *proc) *metrics { m, _ := looks.LoadOrStore(p, &metrics{}); return m.(*metrics) }
				m := quick()
				m.tune = func(c *manager.Config) { c.EveryStep = every }
				m.at = func(ctx context.Context, p *proc, s stage) {
					switch s {
					case stageStarted:
						of(p).look(ctx, p)
					case stageEnded:
						of(p).end(p)
					}
				}
				all := w.replicas(3, m)
				w.reach(20, 10*time.Second, all...)
				const kills = 6
				for i := range kills {
					victim, others := all[i%3], slices.Delete(slices.Clone(all), i%3, i%3+1)
					before := others[0].ranks[0].m.Stats().Discards
					victim.kill()
					w.reach(others[0].ranks[0].atStep()+10, 10*time.Second, others...)
					victim.start()
					w.reach(others[0].ranks[0].atStep()+30, 20*time.Second, all...)
					if lost := others[0].ranks[0].m.Stats().Discards - before; lost > 2 {
						w.book.wrong("a kill and a join cost %d steps, want at most 2", lost)
					}
				}
				for _, r := range all {
					if n := of(r.ranks[0]).checks.Load(); n < 20 {
						w.book.wrong("%s committed %d steps with metrics, want 20", r.name, n)
					}
				}
			})
		})
	}
}
