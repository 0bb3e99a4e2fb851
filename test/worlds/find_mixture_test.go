package worlds

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/manager"
	"github.com/skerry-ft/skerry/quorum"
)

// leftWithMixture has all that were ahead of z die between its copy of their state and
// the end of its heal, while it is in its forward pass, or where it copied in place waits for the
// heal, with parts of both states in its tensors.
// n comes then, and the two are left: they go on from z's own state. z alone begins
// where start says; tune and each are of every replica. A z that copied in place has no
// state of its own any more: it says so, and is started again.
func leftWithMixture(t *testing.T, inPlace bool, start manager.Start, tune func(*manager.Config), each func(*proc)) {
	o := usual()
	o.rules.MinReplicas = 2
	inWorld(t, o, func(w *world) {
		busy := manners{forward: 200 * time.Millisecond, tune: tune, tuneRank: each}
		a, b := w.replica("a", 0, 1, busy).start(), w.replica("b", 1, 1, busy).start()
		w.reach(20, 10*time.Second, a, b)
		left, first := make(chan struct{}), true
		slow := quick()
		slow.heals = 30 * time.Second
		slow.tune = func(c *manager.Config) {
			tune(c)
			c.Start, c.HealInPlace = start, inPlace
		}
		slow.tuneRank = func(p *proc) {
			each(p)
			w.book.read(p, start.Position)
		}
		slow.at = func(ctx context.Context, _ *proc, s stage) {
			if s != stageStarted || !first {
				return
			}
			first = false
			select {
			case <-left:
			case <-ctx.Done():
			}
		}
		z := w.replica("z", 2, 1, slow).start()
		mixed := func() bool { return z.ranks[0].at() == stageStarted }
		if inPlace {
			mixed = func() bool { return z.ranks[0].m.QuorumID() != 0 && z.ranks[0].m.IsHealing() }
		}
		if !w.within(time.Minute, "z computes, or heals", mixed) {
			return
		}
		var ended error // of z; guarded by the world's book
		w.onExit = func(p *proc, err error) {
			if p == z.ranks[0] {
				ended = err
			}
		}
		a.kill()
		b.kill()
		fresh := quick()
		fresh.tune, fresh.tuneRank = tune, each
		n := w.replica("n", 3, 1, fresh).start()
		w.within(time.Minute, "z and n are in one quorum", func() bool {
			id := n.ranks[0].m.QuorumID()
			return id != 0 && id == z.ranks[0].m.QuorumID() || !z.ranks[0].alive()
		})
		close(left)
		if inPlace {
			if !w.within(time.Minute, "z has ended", func() bool { return !z.ranks[0].alive() }) {
				return
			}
			if !errors.Is(ended, manager.ErrStateLost) {
				t.Errorf("z has ended with %v, want ErrStateLost", ended)
			}
			z.start()
		}
		w.reach(20, time.Minute, z, n)
		if heals := z.ranks[0].m.Stats().Heals; heals != 0 {
			t.Errorf("z has healed %d times, want never: its state is the one that is left", heals)
		}
	})
}

// z has read step 5 from a file. It gives the mixture to nobody, under the name of
// that step either, and is still the one that has it.
func TestWorldMixtureOfAFileIsServedToNobody(t *testing.T) {
	t.Parallel()
	at := manager.Start{Position: quorum.Position{Step: 5}}
	leftWithMixture(t, false, at, func(*manager.Config) {}, func(*proc) {})
}

// Copied in place, the step 5 is no more: nobody is told that z has it, and the next z reads
// it anew.
func TestWorldMixtureInPlaceIsTheEnd(t *testing.T) {
	t.Parallel()
	at := manager.Start{Position: quorum.Position{Step: 5}}
	leftWithMixture(t, true, at, func(*manager.Config) {}, func(*proc) {})
}

// Each keeps the state that it starts with, which is the same everywhere; z gets its
// own back.
func TestWorldMixtureWithoutInitSync(t *testing.T) {
	t.Parallel()
	leftWithMixture(t, false, manager.Start{}, func(c *manager.Config) { c.NoInitSync = true }, func(p *proc) { clear(p.params) })
}
