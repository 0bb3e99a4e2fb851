package worlds

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skerry-ft/skerry/manager"
)

// behaviour is what a replica's trainers do at random, until the faults are over.
// Safe for concurrent use.
type behaviour struct {
	d     *drawn
	over  *atomic.Bool
	hangs bool // sooner or later, for ever

	mu struct {
		sync.Mutex

		r    *rand.Rand
		long bool // the one long step has been made

		// Of one incarnation: its ranks hang together, unless the world has ranks that
		// hang alone.
		life   int
		hung   bool
		until  time.Time
		pauser *proc
	}
}

// ofLocked makes what is noted that of p's incarnation.
func (b *behaviour) ofLocked(p *proc) {
	if b.mu.life != p.life {
		b.mu.life, b.mu.hung, b.mu.until, b.mu.pauser = p.life, false, time.Time{}, nil
	}
}

func (b *behaviour) hang(p *proc) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ofLocked(p)
	b.mu.hung = true
}

// hungWith: another rank of the same replica hangs.
func (b *behaviour) hungWith(p *proc) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ofLocked(p)
	return b.mu.hung && !b.d.traits[traitRankHang]
}

// pause makes p hang until then.
func (b *behaviour) pause(p *proc, until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ofLocked(p)
	b.mu.until, b.mu.pauser = until, p
}

// paused is until when p hangs.
func (b *behaviour) paused(p *proc) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ofLocked(p)
	if b.d.traits[traitRankHang] && b.mu.pauser != p {
		return time.Time{}
	}
	return b.mu.until
}

func newBehaviour(d *drawn, index int, over *atomic.Bool) *behaviour {
	b := &behaviour{d: d, over: over}
	b.mu.r = rand.New(rand.NewPCG(d.seed, uint64(index)))
	return b
}

// draws is true so often, while faults happen and the world has the trait.
func (b *behaviour) draws(t trait, often float64) bool {
	if b.over.Load() || !b.d.traits[t] {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return chance(b.mu.r, often)
}

func (b *behaviour) between(low, high time.Duration) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return between(b.mu.r, low, high)
}

// at is manners.at.
func (b *behaviour) at(ctx context.Context, p *proc, s stage) {
	if b.hungWith(p) || b.hangs && b.draws(traitHang, 0.005) {
		b.hang(p)
		p.hang(ctx)
		return
	}
	if b.draws(traitPauses, 0.002) {
		d := b.between(time.Second, 30*time.Second)
		p.w.book.fault(p.name, "hangs for %v %v", d, s)
		b.pause(p, time.Now().Add(d))
	}
	if d := time.Until(b.paused(p)); d > 0 {
		p.takes(ctx, d)
		p.w.book.note(p.name, "goes on")
	}
	if s == stageBetween && b.draws(traitErrors, 0.02) {
		p.w.book.fault(p.name, "reports an error")
		p.m.ReportError(errEnded)
	}
	if s == stageStarted && b.draws(traitLongStep, 0.01) && b.firstLong() {
		d := b.between(b.d.options.rules.StuckAfter, 3*b.d.options.rules.StuckAfter)
		p.w.book.note(p.name, "computes for %v", d)
		p.takes(ctx, d)
	}
}

// takes waits for d, for which the trainer may be taken for one that hangs.
func (p *proc) takes(ctx context.Context, d time.Duration) {
	p.slow(true)
	defer p.slow(false)
	_ = wait(ctx, d)
}

func (p *proc) slow(slow bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.slow, p.mu.wasSlow = slow, p.mu.wasSlow || slow
}

func (b *behaviour) firstLong() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	first := !b.mu.long
	b.mu.long = true
	return first
}

// ctxFor is manners.ctxFor.
func (b *behaviour) ctxFor(ctx context.Context, p *proc, c call) (context.Context, context.CancelFunc) {
	if !b.draws(traitCtx, 0.02) {
		return ctx, func() {}
	}
	d := b.between(0, 50*time.Millisecond)
	if b.draws(traitCtx, 0.3) {
		d = b.between(0, 5*time.Second)
	}
	began := time.Now()
	cctx, cancel := context.WithTimeoutCause(ctx, d, errEnded)
	return cctx, func() {
		if time.Since(began) >= d {
			p.w.book.fault(p.name, "ctx of %v has ended after %v", c, d)
		}
		cancel()
	}
}

// start is manners.start. A joiner that wants nobody let in waits as long as it wants
// that.
func (b *behaviour) start(p *proc) manager.StartOptions {
	return manager.StartOptions{ShrinkOnly: p.m.QuorumID() != 0 && b.draws(traitShrink, 0.05)}
}
