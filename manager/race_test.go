package manager

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skerry-ft/skerry/manager/internal/replica"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/quorum"
	"github.com/skerry-ft/skerry/tensor"
)

// configured lists the quorums for which a trainer's group was ready.
func configured(tr *trainer) []int64 {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	var ids []int64
	for _, e := range tr.mu.events {
		if c, ok := e.(Configured); ok {
			ids = append(ids, c.QuorumID)
		}
	}
	return ids
}

// The notice that a quorum fell can come before its answer does. A member that
// forgot it would wait for the others in the group of the dead quorum, while
// they wait for it to join the next.
func TestQuorumFellBeforeItsAnswerCame(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.trainer("a").start(1<<40), w.trainer("b").start(1<<40)
		w.reaches(5, a, b)
		next := a.m.QuorumID() + 1
		a.m.noticed(replica.Notice{Notice: quorum.Notice{Kind: quorum.NoticeFallen, QuorumID: next, About: b.m.id}})
		c := w.trainer("c").start(1 << 40)
		w.reaches(a.m.Step()+20, a, b, c)
		eventually(t, "all three take part", func() bool { return c.m.IsParticipating() && a.m.NumParticipants() == 3 })
		w.agree(a, b, c)
		if got := configured(a); slices.Contains(got, next) || a.m.QuorumID() <= next {
			t.Errorf("a's groups were %v, now in quorum %d; want none of quorum %d, which had fallen", got, a.m.QuorumID(), next)
		}
	})
}

// gate holds up Configure of every quorum after the first, for a while.
type gate struct {
	pg.Backend

	first int64
	came  chan struct{} // closed when a Configure waits
	once  sync.Once
}

func (g *gate) Unwrap() pg.Backend { return g.Backend }

func (g *gate) SetRound(round int64) { g.Backend.(pg.Rounder).SetRound(round) }

func (g *gate) Configure(ctx context.Context, c pg.Config) error {
	if c.QuorumID > g.first {
		g.once.Do(func() { close(g.came) })
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return g.Backend.Configure(ctx, c)
}

// An attempt that failed with its quorum ends while the next quorum is being
// taken up: that one stays, and its vote on the step is still to come.
func TestFailedAttemptLeavesTheNextQuorumAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		const first = 101 // the fake lighthouse's
		mem := w.net.Backend()
		g := &gate{Backend: mem, first: first, came: make(chan struct{})}
		a, b, c := w.trainerOn("a", mem, g), w.trainer("b"), w.trainer("c")
		a.ops = func(ctx context.Context, grads []float32) error {
			_ = a.m.Group().AllReduce(ctx, tensor.Of(grads), tensor.Avg) // reported to the manager
			if a.m.Errored() == nil {
				return nil
			}
			select { // not before the next quorum's answer is here
			case <-g.came:
			case <-ctx.Done():
			}
			return nil
		}
		simple := func(tr *trainer) func(context.Context, []float32) error {
			return func(ctx context.Context, grads []float32) error {
				_ = tr.m.Group().AllReduce(ctx, tensor.Of(grads), tensor.Avg) // reported to the manager
				return nil
			}
		}
		b.ops, c.ops = simple(b), simple(c)
		for _, tr := range []*trainer{a, b, c} {
			tr.start(1 << 40)
		}
		w.reaches(5, a, b, c)
		if id := a.m.QuorumID(); id != first {
			t.Fatalf("first quorum is %d, want %d", id, first)
		}
		c.kill()
		eventually(t, "a is past the fall", func() bool { return a.m.NumParticipants() == 2 && a.m.QuorumID() > first })
		w.reaches(a.m.Step()+5, a, b)
		w.agree(a, b, c)
		if got := configured(a); len(got) != 2 {
			t.Errorf("a's groups were %v, want one before the death of c and one after", got)
		}
		if heals := a.m.Stats().Heals; heals > 1 {
			t.Errorf("a healed %d times, want only at step 0, if at all", heals)
		}
	})
}
