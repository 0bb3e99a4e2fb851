package manager

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skerry-ft/skerry/manager/internal/replica"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/quorum"
	"github.com/skerry-ft/skerry/tensor"
)

// forwardPass holds a trainer between StartQuorum and its first collective, in
// the step after from, until release is closed.
func (tr *trainer) forwardPass(from int64, release <-chan struct{}) (inside <-chan struct{}) {
	in := make(chan struct{})
	first := true
	tr.before = func(ctx context.Context, step int64) error {
		if step != from || !first {
			return nil
		}
		first = false
		close(in)
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return in
}

func await(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatalf("not in time: %s", what)
	}
}

// A replica dies while all are in the forward pass. The survivors' links tell
// at once: they form the next quorum beside the forward pass, without waiting
// for an operation to fail, and as nothing was reduced yet the step is not
// discarded: its gradients count in the new quorum. The times after which the
// lighthouse would know by itself are longer than the test.
func TestDeathInTheForwardPass(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rules := testRules()
		rules.HeartbeatTimeout, rules.SuspectAfter, rules.Grace = 2*patience, 2*patience, 2*patience
		w := newWorldWith(t, rules)
		a, b, c := w.trainer("a"), w.trainer("b"), w.trainer("c")
		release := make(chan struct{})
		never := make(chan struct{})
		inA, inB, inC := a.forwardPass(5, release), b.forwardPass(5, release), c.forwardPass(5, never)
		for _, tr := range []*trainer{a, b, c} {
			tr.start(10)
		}
		for _, in := range []<-chan struct{}{inA, inB, inC} {
			await(t, "step 5", in)
		}
		before := a.m.QuorumID()
		discards := a.m.Stats().Discards + b.m.Stats().Discards
		c.kill()
		for _, tr := range []*trainer{a, b} {
			w.eventually(tr.name+" is in the next quorum, in its forward pass", func() bool {
				return tr.m.QuorumID() > before && tr.m.NumParticipants() == 2
			})
		}
		close(release)
		w.reaches(10, a, b)
		w.agree(a, b, c)
		if n := a.m.Stats().Discards + b.m.Stats().Discards; n != discards {
			t.Errorf("%d steps discarded, want none", n-discards)
		}
	})
}

// Had one survivor reduced something already, its attempt is void, and it does
// the step again in the next quorum; the other's goes on, and its collectives
// meet those of the second try.
func TestDeathWhenOneHadBegun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b, c := w.trainer("a"), w.trainer("b"), w.trainer("c")
		release, never := make(chan struct{}), make(chan struct{})
		inB, inC := b.forwardPass(5, release), c.forwardPass(5, never)
		begun := make(chan struct{})
		first := true
		a.ops = func(ctx context.Context, grads []float32) error {
			work := a.m.Group().AllReduceAsync(tensor.Of(grads), tensor.Avg)
			if first && a.m.Step() == 5 {
				first = false
				close(begun)
			}
			return a.m.Group().Wait(ctx, work)
		}
		whole := func(tr *trainer) func(context.Context, []float32) error {
			return func(ctx context.Context, grads []float32) error {
				return tr.m.Group().AllReduce(ctx, tensor.Of(grads), tensor.Avg)
			}
		}
		b.ops, c.ops = whole(b), whole(c)
		for _, tr := range []*trainer{a, b, c} {
			tr.start(10)
		}
		await(t, "b in step 5", inB)
		await(t, "c in step 5", inC)
		await(t, "a reduces", begun)
		before := b.m.QuorumID()
		c.kill()
		w.eventually("b is in the next quorum", func() bool {
			return b.m.QuorumID() > before && b.m.NumParticipants() == 2
		})
		close(release)
		w.reaches(10, a, b)
		w.agree(a, b, c)
		if a.m.Stats().Discards == 0 {
			t.Error("a discarded nothing, though it had begun")
		}
	})
}

// One link break is one accusation, whoever of the rank sees it.
func TestAccusedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.trainer("a").start(5), w.trainer("b").start(5)
		w.reaches(5, a, b)
		id := a.m.QuorumID()
		for range 3 {
			a.m.accuse(quorum.ReplicaID(b.m.ReplicaID()), id, "seen", false)
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		n := 0
		for _, e := range a.mu.events {
			if lost, ok := e.(PeerLost); ok && lost.QuorumID == id && lost.Why == "seen" {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%d accusations, want 1", n)
		}
	})
}

// unwatched hides that a backend tells when its group breaks.
type unwatched struct{ pg.Backend }

func (u unwatched) SetRound(round int64) { u.Backend.(pg.Rounder).SetRound(round) }

// The first witness of a death is heard though the quorum has fallen meanwhile
// by another member's word: it may be the only one that saw the link break, and
// without it the dead one is lost only when the grace is over (C7).
func TestFirstWitnessIsHeard(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		mem := w.net.Backend()
		a, b, c := w.trainer("a"), w.trainerOn("b", mem, unwatched{mem}), w.trainer("c")
		for _, tr := range []*trainer{a, b, c} {
			tr.start(5)
		}
		w.reaches(5, a, b, c)
		epoch := b.group()
		w.lh.stop() // no answer comes, and none is lost
		c.kill()
		eventually(t, "b's link to c breaks", func() bool { return b.m.managed.Err() != nil })
		b.m.noticed(replica.Notice{Notice: quorum.Notice{Kind: quorum.NoticeFallen, QuorumID: epoch.QuorumID,
			About: quorum.ReplicaID(a.m.ReplicaID())}})
		b.m.groupBroke(t.Context(), epoch)
		b.m.mu.Lock()
		defer b.m.mu.Unlock()
		if a := b.m.mu.rank.Accusations(); len(a) != 1 || string(a[0].Against) != c.m.ReplicaID() {
			t.Errorf("b accuses %+v, want c", a)
		}
	})
}
