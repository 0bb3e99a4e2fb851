package manager

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/quorum"
)

// walled is a backend whose host cannot reach another one.
type walled struct {
	pg.Backend

	to      string      // the other replica's name
	store   bool        // it is the store on that host that cannot be reached, and not the peer
	mended  atomic.Bool //
	blocked atomic.Int64
}

func (b *walled) Configure(ctx context.Context, c pg.Config) error {
	at := slices.IndexFunc(c.ReplicaIDs, func(id string) bool { return strings.HasPrefix(id, b.to+":") })
	if at < 0 || b.mended.Load() {
		return b.Backend.Configure(ctx, c)
	}
	b.blocked.Add(1)
	if b.store {
		return fmt.Errorf("%w: %w", pg.ErrNoStore, pg.ErrUnreachable)
	}
	return &pg.OpError{
		QuorumID: c.QuorumID, Rank: c.Rank, Peer: at, PeerID: c.ReplicaIDs[at], First: true,
		Err: fmt.Errorf("%w: %w", pg.ErrPeerLost, pg.ErrUnreachable),
	}
}

func (b *walled) Unwrap() pg.Backend { return b.Backend }

// Probe implements pg.Prober.
func (b *walled) Probe(context.Context, string) error {
	if b.mended.Load() {
		return nil
	}
	return pg.ErrUnreachable
}

func (w *world) trainerBehind(name, to string, store bool) (*trainer, *walled) {
	b := &walled{Backend: w.net.Backend(), to: to, store: store}
	return w.trainerOn(name, b, b), b
}

// Q9: who cannot reach a peer is parted from it in the quorum in which that fails,
// the others train on, and the link is tried beside the job: no quorum has both
// until it holds, and then one has them at once.
func TestOutOfReach(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, wall := w.trainerBehind("a", "c", false)
		b, c := w.trainer("b"), w.trainer("c")
		for _, tr := range []*trainer{a, b, c} {
			tr.start(1 << 40)
		}
		w.reaches(20, a, b)
		eventually(t, "c is kept apart", func() bool { return w.lh.stateOf(c.m.ReplicaID()) == quorum.StateApart })
		tried := wall.blocked.Load()
		w.reaches(a.m.Step()+200, a, b)
		if got := wall.blocked.Load(); got != tried {
			t.Errorf("%d quorums more were tried with c behind the wall", got-tried)
		}
		wall.mended.Store(true)
		eventually(t, "c is in", func() bool { return a.m.NumParticipants() == 3 })
		w.reaches(c.m.Step()+5, a, b, c)
		w.agree(a, b, c)
		a.m.mu.Lock()
		defer a.m.mu.Unlock()
		if n := a.m.probes.Len(); n > 0 {
			t.Errorf("a still probes %d peers", n)
		}
	})
}

// A member that cannot reach the store accuses the replica whose store it is, and
// nobody else: so the others go on without one of the two. In real time: the manager tries
// the store by pg.ProbeStore, which dials by itself.
func TestStoreOutOfReach(t *testing.T) {
	t.Parallel()
	w := newKernelWorld(t)
	a, b := w.trainer("a"), w.trainer("b")
	c, wall := w.trainerBehind("c", "a", true)
	for _, tr := range []*trainer{a, b, c} {
		tr.start(1 << 40)
	}
	w.reaches(20, a, b)
	wall.mended.Store(true)
	w.reaches(b.m.Step()+5, a, b, c)
	w.agree(a, b, c)
	said := fmt.Sprintf("accused %s (quorum", a.m.ReplicaID())
	if !slices.ContainsFunc(w.lh.transcript(), func(line string) bool { return strings.Contains(line, said) }) {
		t.Error("a was not accused")
	}
}
