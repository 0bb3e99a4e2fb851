package manager

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skerry-ft/skerry/pg"
)

// turnstile holds a trainer up until it is opened.
type turnstile struct {
	at   chan struct{} // closed when the trainer waits
	open chan struct{}
	once sync.Once
}

func newTurnstile() *turnstile { return &turnstile{at: make(chan struct{}), open: make(chan struct{})} }

func (g *turnstile) wait(ctx context.Context) error {
	g.once.Do(func() { close(g.at) })
	select {
	case <-g.open:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A death while a trainer is between two steps (it evaluates, it saves) is acted
// upon at once: nobody waits for the join timeout, which here is longer than the
// test's patience.
func TestDeathBetweenSteps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rules := testRules()
		rules.JoinTimeout = 10 * patience
		w := newWorldWith(t, rules)
		a, b, c, d := w.trainer("a"), w.trainer("b"), w.trainer("c"), w.trainer("d")
		g := newTurnstile()
		c.between = func(ctx context.Context) error {
			if c.m.Step() < 5 {
				return nil
			}
			return g.wait(ctx)
		}
		for _, tr := range []*trainer{a, b, c, d} {
			tr.start(1 << 40)
		}
		<-g.at
		old := c.m.QuorumID()
		d.kill()
		eventually(t, "the survivors are in the next quorum", func() bool {
			return c.m.QuorumID() > old && c.m.NumParticipants() == 3
		})
		close(g.open)
		w.reaches(c.m.Step()+5, a, b, c)
		w.agree(a, b, c)
		if h := c.m.Stats().Heals; h > 1 {
			t.Errorf("c healed %d times, want the first step's at most", h)
		}
	})
}

// A state that is to be fetched at step 0 is that of one quorum's donor. Every fresh
// replica is at the same position, with bytes of its own. The heal waits for the
// trainer to come round meanwhile: between two steps the tensors are its own.
func TestStateFetchedAtStepZero(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rules := testRules()
		rules.MinReplicas = 2
		w := newWorldWith(t, rules)
		a, z := w.trainer("a"), w.trainer("z")
		g := newTurnstile()
		tried := false
		z.before = func(context.Context, int64) error {
			if !tried {
				z.m.ReportError(errCut) // the first step is discarded
				z.backend.Abort(z.group(), errCut)
			}
			tried = true
			return nil
		}
		z.between = func(ctx context.Context) error {
			if !tried {
				return nil
			}
			return g.wait(ctx)
		}
		a.start(1 << 40)
		z.start(1 << 40)
		<-g.at
		eventually(t, "z is to heal from a", z.m.IsHealing)
		a.kill()
		eventually(t, "z has noticed", func() bool { return !z.standing() })
		b := w.trainer("0").start(1 << 40)
		close(g.open)
		w.reaches(5, b, z)
		w.agree(b, z)
	})
}

// standing says whether the trainer's quorum stands.
func (tr *trainer) standing() bool {
	tr.m.mu.Lock()
	defer tr.m.mu.Unlock()
	return tr.m.mu.rank.Standing()
}

// group is the epoch of the trainer's group.
func (tr *trainer) group() pg.Epoch {
	tr.m.mu.Lock()
	defer tr.m.mu.Unlock()
	return tr.m.mu.group
}

// patienceOf notes how long the longest collective of each step may take.
type patienceOf struct {
	pg.Backend

	m  func() *Manager
	mu struct {
		sync.Mutex

		longest map[int64]time.Duration
	}
}

func (p *patienceOf) Unwrap() pg.Backend { return p.Backend }

func (p *patienceOf) SetRound(round int64) { p.Backend.(pg.Rounder).SetRound(round) }

func (p *patienceOf) Submit(op *pg.Op) *pg.Work {
	step, left := p.m().Step()+1, time.Until(op.Deadline)
	p.mu.Lock()
	p.mu.longest[step] = max(p.mu.longest[step], left)
	p.mu.Unlock()
	return p.Backend.Submit(op)
}

// StepTimeout is in force from the second step of a quorum with a heal, not
// HealTimeout: a hang must not cost ten minutes because somebody healed once.
func TestStepTimeoutAfterAHeal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		mem := w.net.Backend()
		p := &patienceOf{Backend: mem}
		p.mu.longest = make(map[int64]time.Duration)
		a := w.trainerOn("a", mem, p)
		p.m = func() *Manager { return a.m }
		b := w.trainer("b")
		a.start(5)
		b.start(5)
		w.reaches(5, a, b)
		p.mu.Lock()
		defer p.mu.Unlock()
		for step := int64(2); step <= 5; step++ {
			if got, limit := p.mu.longest[step], a.m.Timeouts().Step; got > limit || got == 0 {
				t.Errorf("step %d: a collective may take %v, want StepTimeout = %v at most", step, got, limit)
			}
		}
	})
}
