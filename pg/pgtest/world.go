package pgtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/pg"
)

// Bound is how long anything in the suite may take before it counts as hung.
const Bound = 60 * time.Second

// PromptBound is how soon what an abort or a broken link ends must have ended:
// far below any timeout, far above what a loaded machine needs.
const PromptBound = 10 * time.Second

// World is a set of backends of one test, which are configured together again
// and again. Not safe for concurrent use, but for Each's functions.
type World struct {
	t        testing.TB
	address  string // host:port of the store
	cluster  string // drawn, so that worlds can share a store
	quorumID int64
	configs  []pg.Config
	made     []*pg.Group // over any member, at any time

	// Members are the backends of the last Configure by rank, and Groups the
	// same as groups.
	Members []Member
	Groups  []*pg.Group
}

// Member is one replica of a World.
type Member struct {
	ID      string
	Backend pg.Backend
}

// NewWorld makes a world whose groups meet at a store address "host:port".
func NewWorld(t testing.TB, address string) *World {
	return &World{t: t, address: address, cluster: "pgtest-" + rand.Text()[:8], quorumID: 100}
}

// Join makes b a member, to be closed when the test ends.
func (w *World) Join(id string, b pg.Backend) Member {
	w.t.Cleanup(func() {
		for _, g := range w.made {
			if g.Backend() != b {
				continue
			}
			if err := g.Close(); err != nil { // with its subgroups
				w.t.Errorf("close group of %s: %v", id, err)
			}
		}
		if err := b.Close(); err != nil {
			w.t.Errorf("close %s: %v", id, err)
		}
	})
	return Member{ID: id, Backend: b}
}

// newWorld makes n members of the harness's backend and configures them.
func newWorld(t *testing.T, h Harness, n int) *World {
	t.Helper()
	w := NewWorld(t, h.storeAddress(t))
	members := make([]Member, n)
	for i := range members {
		members[i] = w.Join(fmt.Sprintf("replica-%d", i), h.New(t))
	}
	w.Configure(members...)
	return w
}

// MemoryWorld is a world of n members with backends in memory, each within what wrap puts
// around it (nil: nothing). The members are "a", "b" and so on.
func MemoryWorld(t testing.TB, n int, wrap func(pg.Backend) pg.Backend) *World {
	t.Helper()
	network := NewMemory()
	w := NewWorld(t, t.Name())
	members := make([]Member, n)
	for i := range members {
		var b pg.Backend = network.Backend()
		if wrap != nil {
			b = wrap(b)
		}
		members[i] = w.Join(string(rune('a'+i)), b)
	}
	w.Configure(members...)
	return w
}

// Config is what the member at rank would be configured with next; prefix and
// quorum id are fresh for every call of Next.
func (w *World) Config(members []Member, rank int) pg.Config {
	ids := make([]string, len(members))
	for i, m := range members {
		ids[i] = m.ID
	}
	return pg.Config{
		StoreAddress:   fmt.Sprintf("%s/skerry/%s/job/%d/0", w.address, w.cluster, w.quorumID),
		ReplicaIDs:     ids,
		Rank:           rank,
		Cluster:        w.cluster,
		QuorumID:       w.quorumID,
		Round:          1,
		GroupWorldSize: 1,
		Timeout:        Bound,
	}
}

// Next makes the next configurations use a new quorum id, and so a new prefix.
func (w *World) Next() { w.quorumID++ }

// Epoch is that of the last configuration.
func (w *World) Epoch() pg.Epoch { return w.configs[0].Epoch() }

// Configure configures members, in rank order, under a new quorum id, and
// fails the test if that does not work.
func (w *World) Configure(members ...Member) {
	w.t.Helper()
	w.Next()
	w.Members = members
	w.Groups = make([]*pg.Group, len(members))
	w.configs = make([]pg.Config, len(members))
	for i, m := range members {
		w.Groups[i] = pg.NewGroup(m.Backend)
		w.made = append(w.made, w.Groups[i])
		w.configs[i] = w.Config(members, i)
	}
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		if err := g.Configure(ctx, w.configs[rank]); err != nil {
			return err
		}
		if g.Rank() != rank || g.Size() != len(members) {
			return fmt.Errorf("rank %d of %d, want %d of %d", g.Rank(), g.Size(), rank, len(members))
		}
		return nil
	})
}

// Each runs f for every rank at once and fails the test on any error, or if it
// takes longer than Bound.
func (w *World) Each(f func(ctx context.Context, rank int, g *pg.Group) error) {
	w.t.Helper()
	if err := w.Try(f); err != nil {
		w.t.Fatal(err)
	}
}

// Try is Each that returns the errors, with their ranks, joined.
func (w *World) Try(f func(ctx context.Context, rank int, g *pg.Group) error) error {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Bound)
	defer cancel()
	errs := make([]error, len(w.Groups))
	var wg sync.WaitGroup
	for rank, g := range w.Groups {
		wg.Go(func() {
			if err := f(ctx, rank, g); err != nil {
				errs[rank] = fmt.Errorf("rank %d of %d: %w", rank, len(w.Groups), err)
			}
		})
	}
	within(w.t, Bound+PromptBound, "all ranks", wg.Wait)
	return errors.Join(errs...)
}

// within fails the test with all stacks if f does not return in time.
func within(t testing.TB, bound time.Duration, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	timer := time.NewTimer(bound)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		stacks := make([]byte, 1<<20)
		t.Fatalf("%s: not done after %v\n%s", what, bound, stacks[:runtime.Stack(stacks, true)])
	}
}

// await waits until cond holds, and fails the test if it does not in time.
func await(t testing.TB, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(PromptBound)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not so after %v", what, PromptBound)
		}
		<-tick.C
	}
}
