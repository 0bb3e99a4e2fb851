package tcp

import (
	"github.com/skerry-ft/skerry/internal/failpoint"
	"github.com/skerry-ft/skerry/pg"
)

// worker starts collectives that waited for an earlier one. Whoever completes
// that one must not: it may be a writer in the middle of its link's frames.
func (b *Backend) worker() {
	for {
		select {
		case <-b.closing:
			return
		case <-b.work:
		}
		b.mu.Lock()
		g := b.mu.group
		b.mu.Unlock()
		b.advance(g)
	}
}

// advance starts collectives, in order, as long as none is under way.
func (b *Backend) advance(g *group) {
	for {
		b.mu.Lock()
		if g.phase != groupReady || g.active != nil || g.queue.empty() {
			b.mu.Unlock()
			return
		}
		t := g.queue.pop()
		g.active = t
		t.touch++
		b.mu.Unlock()
		if !b.begin(t) {
			return
		}
	}
}

// begin lays t out, opens it for frames, and does what needs no peer. It gives
// true if t is complete already. The caller's touch is let go.
func (b *Backend) begin(t *task) bool {
	t.prepare(b)
	g := t.group
	var do todo
	b.mu.Lock()
	if t.err == nil {
		b.openLocked(t, &do)
	}
	b.unlock(&do)
	if t.call.Kind != pg.KindBallot {
		g.points.At(failpoint.AllReduceDuring)
	}
	for i := range t.late {
		t.late[i].link.land(&t.late[i])
	}
	if t.fold.world == 1 {
		for k := range t.fold.cells {
			b.foldCell(t, k)
		}
	}
	t.local()
	for _, l := range g.peers {
		if l != nil {
			b.pull(l) // what is there already
		}
	}
	do = todo{}
	b.mu.Lock()
	t.need--
	b.untouchLocked(t, &do)
	complete := do.done != nil
	do.advance = nil // our caller does that
	b.unlock(&do)
	return complete
}

// openLocked lets frames of t move, those included that came before.
func (b *Backend) openLocked(t *task, do *todo) {
	g := t.group
	if t.call.Kind == pg.KindBallot {
		t.fillBallot(g.digest.take())
	}
	t.open = true
	for _, l := range g.peers {
		if l == nil {
			continue
		}
		if h, err := l.admitLocked(t, do); err != nil {
			b.breakLocked(g, l.mismatchCause(&h, err), do)
			return
		}
	}
	do.kickAll = g
}
