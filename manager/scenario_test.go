package manager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/checkpoint/safetensors"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/quorum"
	"github.com/skerry-ft/skerry/tensor"
)

// stopsHalfway makes a trainer stop in that step with one all-reduce done and one to do; the
// function that it returns waits until it has.
func (tr *trainer) stopsHalfway(step int64) (wait func()) {
	stopped := make(chan struct{})
	tr.ops = func(ctx context.Context, grads []float32) error {
		_ = tr.m.Group().AllReduce(ctx, tensor.Of(grads[:len(grads)/2]), tensor.Avg)
		if tr.m.Step() == step {
			close(stopped)
			<-ctx.Done()
			return ctx.Err()
		}
		_ = tr.m.Group().AllReduce(ctx, tensor.Of(grads[len(grads)/2:]), tensor.Avg)
		return nil
	}
	return func() {
		tr.w.t.Helper()
		select {
		case <-stopped:
		case <-time.After(patience):
			tr.w.t.Fatalf("step %d is not reached", step)
		}
	}
}

// A replica dies with one all-reduce done and one under way: the survivors
// discard the step and redo it without it.
func TestDeathInTheMiddleOfAllReduce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b, c := w.trainer("a"), w.trainer("b"), w.trainer("c")
		halfway := c.stopsHalfway(5)
		a.start(15)
		b.start(15)
		c.start(15)
		halfway()
		c.kill()
		w.reaches(15, a, b)
		w.agree(a, b, c)
		if a.m.Stats().Discards == 0 || a.m.NumParticipants() != 2 {
			t.Errorf("a: %+v, %d participants; want a discarded step and 2 participants", a.m.Stats(), a.m.NumParticipants())
		}
	})
}

// A replica that fell behind without dying heals beside its collectives, adds
// nothing to that step, and takes part in a later one.
func TestHealBesidesTheCollectives(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.trainer("a").start(1<<40), w.trainer("b").start(1<<40)
		mem := w.net.Backend()
		f := &flaky{Backend: mem}
		c := w.trainerOn("c", mem, f).start(1 << 40)
		w.reaches(3, a, b, c)
		first := c.m.Stats().Heals
		w.lh.block(c.m.ReplicaID(), true)
		f.trip()
		at := c.m.Step()
		w.reaches(at+10, a, b) // without c
		w.lh.block(c.m.ReplicaID(), false)
		eventually(t, "c heals and takes part again", func() bool {
			return c.m.Stats().Heals > first && c.m.IsParticipating() && c.m.NumParticipants() == 3
		})
		w.reaches(c.m.Step()+5, a, b, c)
		w.agree(a, b, c)
	})
}

// With Sync a replica that fell behind takes part in the very step in which it
// heals.
func TestSyncHeal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.tune = func(c *Config) { c.Sync = true }
		a, b := w.trainer("a").start(1<<40), w.trainer("b").start(1<<40)
		mem := w.net.Backend()
		f := &flaky{Backend: mem}
		c := w.trainerOn("c", mem, f).start(1 << 40)
		w.reaches(3, a, b, c)
		w.lh.block(c.m.ReplicaID(), true)
		f.trip()
		at := c.m.Step()
		w.reaches(at+10, a, b)
		w.lh.block(c.m.ReplicaID(), false)
		eventually(t, "c takes part again", func() bool { return c.m.Step() > at+10 && c.m.IsParticipating() })
		w.reaches(c.m.Step()+5, a, b, c)
		w.agree(a, b, c)
	})
}

// In steady state nobody asks the lighthouse, and its absence is not noticed;
// one that comes back from its ledger finds the quorum standing. (That no step waits
// for it is shown in virtual time, test/worlds.)
func TestLighthouseAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b, c := w.trainer("a").start(1<<40), w.trainer("b").start(1<<40), w.trainer("c").start(1<<40)
		w.reaches(5, a, b, c)
		joins, id := a.m.Stats().Joins, a.m.QuorumID()
		w.lh.stop()
		gone := time.Now()
		for time.Since(gone) < 2*time.Second {
			w.reaches(a.m.Step()+50, a, b, c)
		}
		w.lh.returnAsNewLeader(t)
		for _, tr := range []*trainer{a, b, c} {
			eventually(t, tr.name+" is back in session", func() bool { return tr.m.Stats().Reconnects > 0 })
		}
		w.reaches(a.m.Step()+50, a, b, c)
		w.agree(a, b, c)
		if s := a.m.Stats(); s.Joins != joins || a.m.QuorumID() != id || s.Discards != 0 {
			t.Errorf("joins %d to %d, quorum %d to %d, %d discards; want nothing to happen",
				joins, s.Joins, id, a.m.QuorumID(), s.Discards)
		}
	})
}

// A member that only the lighthouse cannot reach is not lost while its peers
// make progress with it.
func TestMemberThatOnlyTheLighthouseCannotReach(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b, c := w.trainer("a").start(1<<40), w.trainer("b").start(1<<40), w.trainer("c").start(1<<40)
		w.reaches(5, a, b, c)
		id := a.m.QuorumID()
		w.lh.block(c.m.ReplicaID(), true)
		cut := time.Now()
		for time.Since(cut) < 3*time.Second {
			w.reaches(a.m.Step()+20, a, b, c)
		}
		w.lh.block(c.m.ReplicaID(), false)
		w.reaches(a.m.Step()+20, a, b, c)
		w.agree(a, b, c)
		if got := a.m.QuorumID(); got != id || a.m.Stats().Discards != 0 {
			t.Errorf("quorum %d became %d, %d discards; want nothing to happen to training", id, got, a.m.Stats().Discards)
		}
	})
}

// FIXED_WITH_SPARES: at most two take part; a spare steps in when one dies.
func TestSpares(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.tune = func(c *Config) { c.FixedWorldSize, c.MinReplicas = 2, 2 }
		a, b, c := w.trainer("a").start(1<<40), w.trainer("b").start(1<<40), w.trainer("c").start(1<<40)
		w.reaches(5, a, b, c)
		if a.m.NumParticipants() != 2 || c.m.ParticipantRank() != -1 || c.m.IsParticipating() {
			t.Errorf("%d participants, c's rank %d; want 2, and c a spare", a.m.NumParticipants(), c.m.ParticipantRank())
		}
		a.kill()
		eventually(t, "the spare takes part", func() bool { return c.m.IsParticipating() })
		w.reaches(c.m.Step()+5, b, c)
		w.agree(a, b, c)
		if b.m.NumParticipants() != 2 {
			t.Errorf("%d participants, want 2", b.m.NumParticipants())
		}
	})
}

// EveryStep asks after every commit, and keeps quorum and group.
func TestEveryStep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.tune = func(c *Config) { c.EveryStep = true }
		a, b := w.trainer("a").start(20), w.trainer("b").start(20)
		w.reaches(20, a, b)
		w.agree(a, b)
		s := a.m.Stats()
		if s.Asks < 19 || s.Unanswered != 0 || s.Reconfigures > 2 || s.Discards != 0 {
			t.Errorf("%+v, want 19 answered asks, and no group rebuilt for them", s)
		}
	})
}

// A step that one replica reports an error for is discarded by all.
func TestReportedErrorDiscardsEverywhere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.trainer("a"), w.trainer("b")
		failed := false
		b.before = func(_ context.Context, step int64) error {
			if step == 4 && !failed {
				failed = true
				b.m.ReportError(errors.New("bad batch"))
			}
			return nil
		}
		a.start(10)
		b.start(10)
		w.reaches(10, a, b)
		w.agree(a, b)
		if a.m.Stats().Discards == 0 || b.m.Stats().Discards == 0 {
			t.Errorf("discards: a %d, b %d; want both", a.m.Stats().Discards, b.m.Stats().Discards)
		}
		if a.m.Stats().Heals+b.m.Stats().Heals != 1 {
			t.Errorf("somebody healed after the first step")
		}
	})
}

// Bytes that differ are caught before anyone commits them.
func TestCorruptionIsCaughtBeforeTheCommit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b, c := w.trainer("a"), w.trainer("b"), w.trainer("c")
		b.before = func(_ context.Context, step int64) error {
			if step == 4 && b.m.Stats().Discards == 0 {
				b.backend.(interface{ CorruptNext() }).CorruptNext()
			}
			return nil
		}
		for _, tr := range []*trainer{a, b, c} {
			tr.start(10)
		}
		w.reaches(10, a, b, c)
		w.agree(a, b, c)
		for _, tr := range []*trainer{a, b, c} {
			if s := tr.m.Stats(); s.Discards != 1 {
				t.Errorf("%s: %d discards, want 1", tr.name, s.Discards)
			}
		}
	})
}

// An error of an earlier step marks nothing.
func TestLateErrorMarksNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.trainer("a"), w.trainer("b")
		a.before = func(_ context.Context, step int64) error {
			p := participation{a.m}
			p.ReportError(p.Attempt()-1, errors.New("late"))
			if err := a.m.Errored(); err != nil {
				return fmt.Errorf("step %d is marked: %w", step, err)
			}
			old := &pg.OpError{QuorumID: a.m.QuorumID() - 1, Peer: 1, PeerID: b.m.ReplicaID(), First: true, Err: pg.ErrPeerLost}
			a.m.brokeWith(a.m.QuorumID(), old)
			return nil
		}
		a.start(10)
		b.start(10)
		w.reaches(10, a, b)
		w.agree(a, b)
		if s := a.m.Stats(); s.Discards != 0 {
			t.Errorf("%d discards, want none", s.Discards)
		}
	})
}

func TestMaxRetries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.tune = func(c *Config) { c.MinReplicas, c.MaxRetries = 2, 3 }
		a := w.trainer("a").start(10)
		a.ended(ErrMaxRetries)
		if s := a.m.Stats(); s.Commits != 0 || s.Discards != 3 {
			t.Errorf("%+v, want 3 discards and no commit", s)
		}
	})
}

func TestDrain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b, c := w.trainer("a").start(1<<40), w.trainer("b").start(1<<40), w.trainer("c").start(1<<40)
		w.reaches(5, a, b, c)
		c.m.Drain()
		c.ended(ErrDrained)
		w.reaches(a.m.Step()+5, a, b)
		w.agree(a, b, c)
		if a.m.NumParticipants() != 2 || a.m.Stats().Discards != 0 {
			t.Errorf("%d participants, %d discards; want 2 and none", a.m.NumParticipants(), a.m.Stats().Discards)
		}
	})
}

// Two at once, with the draining one as the only holder of the state: it stays
// until the joiner has healed.
func TestDrainOfTheSoleHolder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.trainer("a").start(1 << 40)
		w.reaches(5, a)
		a.m.Drain()
		b := w.trainer("b").start(1 << 40)
		a.ended(ErrDrained)
		w.reaches(b.m.Step()+5, b)
		w.agree(a, b)
		if b.m.Step() < 5 {
			t.Errorf("b began anew")
		}
	})
}

// All at once, as when a whole job is told to end: nobody is left to wait for. By an
// operator's word it is the same (they trained on for ever), and their own wish, a
// SIGTERM behind it, ends them no later.
func TestDrainOfAll(t *testing.T) {
	t.Parallel()
	own := func(_ *world, tr *trainer) { tr.m.Drain() }
	operator := func(w *world, tr *trainer) {
		if _, err := w.lh.Drain(w.t.Context(), &skerrypb.DrainRequest{ReplicaId: tr.m.ReplicaID(), Reason: "test"}); err != nil {
			w.t.Error(err)
		}
	}
	for name, drain := range map[string]func(*world, *trainer){
		"own": own, "operator": operator,
		"both": func(w *world, tr *trainer) { operator(w, tr); own(w, tr) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				all := []*trainer{w.trainer("a").start(1 << 40), w.trainer("b").start(1 << 40), w.trainer("c").start(1 << 40)}
				w.reaches(5, all...)
				for _, tr := range all {
					drain(w, tr)
				}
				for _, tr := range all {
					tr.ended(ErrDrained)
					if strings.Contains(tr.err.Error(), "took over within") {
						t.Errorf("%s waited for its drain timeout: %v", tr.name, tr.err)
					}
				}
				if n := all[0].m.Stats().Discards; n > 1 {
					t.Errorf("%d discards, want one at most: the first to leave breaks the last step", n)
				}
			})
		})
	}
}

func TestEviction(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b, c := w.trainer("a").start(1<<40), w.trainer("b").start(1<<40), w.trainer("c").start(1<<40)
		w.reaches(5, a, b, c)
		w.lh.mu.Lock()
		err := w.lh.mu.machine.Evict(time.Now(), quorum.ReplicaID(c.m.ReplicaID()), "test")
		w.lh.stepLocked()
		w.lh.mu.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		c.ended(ErrEvicted)
		w.reaches(a.m.Step()+5, a, b)
		w.agree(a, b, c)
	})
}

// Two replicas with one name: the second is told so.
func TestNameInUse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.trainer("a").start(1<<40), w.trainer("b").start(1<<40)
		w.reaches(3, a, b)
		twin := w.trainer("a").start(1 << 40)
		twin.ended(ErrRefused)
		if twin.err == nil || !strings.Contains(twin.err.Error(), "name in use") {
			t.Errorf("%v, want name in use", twin.err)
		}
		w.reaches(a.m.Step()+5, a, b)
	})
}

func TestLighthouseUnreachable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.lh.stop()
		w.tune = func(c *Config) { c.StepTimeout = 500 * time.Millisecond }
		a := w.trainer("a").start(1)
		a.ended(ErrUnreachable)
		for _, part := range []string{w.lh.addr, "tried", "Config.Lighthouse"} {
			if a.err == nil || !strings.Contains(a.err.Error(), part) {
				t.Errorf("%v, want %q in it", a.err, part)
			}
		}
		if strings.Contains(fmt.Sprint(a.err), "rpc error") {
			t.Errorf("%v: want what the network said, not grpc's wrapping", a.err)
		}
	})
}

// A state that does not fit ends training in the replica that came with it, and
// in no other. It is in no quorum: started again and again, it would cost the
// others one each time. The lighthouse knows why it went.
func TestStateThatDoesNotFit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.trainer("a").start(1<<40), w.trainer("b").start(1<<40)
		w.reaches(3, a, b)
		eventually(t, "the lighthouse knows a state to copy", func() bool { return w.lh.status("a").Beat.Position.Step > 0 && w.lh.status("b").Beat.Position.Step > 0 })
		c := w.trainer("c")
		err := c.m.Register("extra", func() checkpoint.State {
			return checkpoint.State{Tensors: map[string]tensor.Tensor{"x": tensor.New(tensor.Float32, 3)}}
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		c.start(1 << 40)
		select {
		case <-c.done:
		case <-time.After(patience):
			t.Fatal("c goes on")
		}
		if _, ok := errors.AsType[*safetensors.MismatchError](c.err); !ok {
			t.Errorf("c ended with %v, want a mismatch", c.err)
		}
		c.stop()
		w.reaches(a.m.Step()+5, a, b)
		w.agree(a, b)
		if why := w.lh.status("c").Why; !strings.Contains(why, "does not fit") {
			t.Errorf("the lighthouse says of c: %q", why)
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		for _, e := range a.mu.events {
			if f, ok := e.(QuorumFormed); ok && slices.ContainsFunc(f.Members, func(id string) bool { return strings.HasPrefix(id, "c:") }) {
				t.Errorf("c was in a quorum: %v", e)
			}
		}
	})
}
