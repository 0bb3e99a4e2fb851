package manager

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skerry-ft/skerry/checkpoint"
)

// passAny lets fetches of no certain version through while it is held.
type passAny struct{ *heldTransport }

func (p passAny) Fetch(
	ctx context.Context, v checkpoint.Version, donors []string, into *checkpoint.Mirror,
) (map[string]string, error) {
	if v == checkpoint.Any {
		return p.Transport.Fetch(ctx, v, donors, into)
	}
	return p.heldTransport.Fetch(ctx, v, donors, into)
}

func (p passAny) Pause() { p.Transport.Pause() }

// A newcomer copies what it can before it joins, and heals beside its first step;
// then it takes part.
func TestNewcomerCopiesAhead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.trainer("a").start(1<<40), w.trainer("b").start(1<<40)
		w.reaches(20, a, b)
		c := w.trainer("c").start(1 << 40)
		w.reaches(a.m.Step()+20, a, b, c)
		eventually(t, "c takes part", c.m.IsParticipating)
		w.agree(a, b, c)
		var copied, healed bool
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, e := range c.mu.events {
			switch e := e.(type) {
			case StateCopied:
				copied = e.Err == nil && e.Bytes > 0
			case HealStarted:
				if !copied {
					t.Error("the heal began before the copy had ended")
				}
			case HealDone:
				healed = e.Err == nil
			}
		}
		if !copied || !healed {
			t.Errorf("copied %t, healed %t, in %v", copied, healed, c.mu.events)
		}
	})
}

// Whatever ends a StartQuorum after the copy, the trainer finds its own bytes: it
// may write them to a file, as its step 0. What was copied is not lost.
func TestTensorsAreOneStateWhenStartQuorumFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.trainer("a").start(1 << 40)
		w.reaches(20, a)
		h := passAny{w.newHeldTransport()}
		h.held.Store(true)
		w.tune = func(c *Config) { c.Transport, c.Sync = h, true }
		z := w.trainer("z")
		own := slices.Clone(z.params)
		var tries atomic.Int64
		z.between = func(context.Context) error {
			if z.m.Stats().Commits == 0 && !slices.Equal(z.params, own) {
				t.Error("the trainer has other bytes than its own after a StartQuorum that failed")
			}
			return nil
		}
		z.startCtx = func(ctx context.Context) (context.Context, context.CancelFunc) {
			switch n := tries.Add(1); {
			case n < 4:
				return context.WithTimeout(ctx, 300*time.Millisecond)
			case n == 4:
				h.held.Store(false)
				close(h.release)
			}
			return ctx, func() {}
		}
		z.start(1 << 40)
		eventually(t, "z has committed", func() bool { return z.m.Stats().Commits > 5 })
		w.agree(a, z)
		if tries.Load() < 4 {
			t.Error("no StartQuorum failed")
		}
	})
}

// All that were ahead die between the copy and the heal. The newcomer is up to
// date then, with its own bytes, not with a mixture: the next newcomer of step 0
// takes them over.
func TestMixtureIsNoState(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.trainer("a").start(1 << 40)
		w.reaches(20, a)
		h := passAny{w.newHeldTransport()}
		h.held.Store(true)
		w.tune = func(c *Config) { c.Transport = h }
		z := w.trainer("z")
		w.tune = nil
		own := slices.Clone(z.params)
		var first []float32
		z.before = func(context.Context, int64) error {
			if z.m.Position().Step == 0 && !z.m.IsHealing() && z.m.IsParticipating() {
				first = slices.Clone(z.params)
			}
			return nil
		}
		z.start(1 << 40)
		<-h.waiting // the copy is done, the heal waits
		a.kill()
		w.reaches(3, z)
		if !slices.Equal(first, own) {
			t.Error("the replica began with other bytes than its own")
		}
		b := w.trainer("b").start(1 << 40)
		w.reaches(z.m.Step()+5, b, z)
		w.agree(b, z)
	})
}
