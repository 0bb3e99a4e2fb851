package manager

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/skerry-ft/skerry/internal/nettest"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/quorum"
	"github.com/skerry-ft/skerry/store"
)

// ranked is a replica of several ranks, each with its own part of the model.
type ranked struct {
	ranks []*trainer
}

// groupStore serves a replica's group store.
func groupStore(w *world) string { return groupStoreOf(w.t, w.wire.Host("groupstore"), nil) }

func groupStoreOf(t testing.TB, host *nettest.Host, conf *store.TLS) string {
	t.Helper()
	ln, err := host.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.NewServer(store.ServerConfig{Listener: ln, TLS: conf})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return s.Addr()
}

// replica makes a replica of size ranks; around wraps each rank's backend.
func (w *world) replica(name string, size int, around func(rank int, b pg.Backend) pg.Backend) *ranked {
	w.t.Helper()
	return w.replicaOf(name, size, around, func(*trainer, pg.Backend) {})
}

// replicaOf also tells of each rank with the backend that is around its own.
func (w *world) replicaOf(
	name string, size int, around func(rank int, b pg.Backend) pg.Backend, made func(*trainer, pg.Backend),
) *ranked {
	w.t.Helper()
	addr := groupStore(w) + "/" + name
	r := &ranked{}
	tune := w.tune
	defer func() { w.tune = tune }()
	for rank := range size {
		w.tune = func(c *Config) {
			if tune != nil {
				tune(c)
			}
			c.GroupRank, c.GroupWorldSize, c.GroupStore = rank, size, addr
			c.ReplicaID = name
		}
		mem := w.net.Backend()
		outer := pg.Backend(mem)
		if around != nil {
			outer = around(rank, mem)
		}
		tr := w.trainerOn(fmt.Sprintf("%s.%d", name, rank), mem, outer)
		made(tr, outer)
		r.ranks = append(r.ranks, tr)
	}
	return r
}

func (r *ranked) start(until int64) *ranked {
	for _, tr := range r.ranks {
		tr.start(until)
	}
	return r
}

// rankOf picks one rank of several replicas: those hold the same part.
func rankOf(rank int, replicas ...*ranked) []*trainer {
	var list []*trainer
	for _, r := range replicas {
		list = append(list, r.ranks[rank])
	}
	return list
}

// inStep checks that the ranks of each replica committed the same steps.
func inStep(t *testing.T, replicas ...*ranked) {
	t.Helper()
	for _, r := range replicas {
		for _, tr := range r.ranks[1:] {
			a, b := r.ranks[0].m.Stats(), tr.m.Stats()
			if r.ranks[0].m.Position() != tr.m.Position() || a.Commits != b.Commits || a.Discards != b.Discards {
				t.Errorf("%s at %+v with %d commits, %d discards; %s at %+v with %d commits, %d discards",
					r.ranks[0].name, r.ranks[0].m.Position(), a.Commits, a.Discards,
					tr.name, tr.m.Position(), b.Commits, b.Discards)
			}
		}
	}
}

func TestReplicasOfTwoRanks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.replica("a", 2, nil).start(20), w.replica("b", 2, nil).start(20)
		for rank := range 2 {
			w.reaches(20, rankOf(rank, a, b)...)
			w.agree(rankOf(rank, a, b)...)
		}
		inStep(t, a, b)
		if s := a.ranks[0].m.Stats(); s.Joins != 1 || s.Discards != 0 {
			t.Errorf("%+v, want 1 join and no discards", s)
		}
	})
}

// One rank's step fails: no rank of any replica commits it.
func TestOneRankFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var broken *flaky
		var failed atomic.Int64 // the quorum
		a := w.replica("a", 2, nil)
		b := w.replica("b", 2, func(rank int, be pg.Backend) pg.Backend {
			if rank == 0 {
				return be
			}
			broken = &flaky{Backend: be}
			return broken
		})
		b.ranks[1].before = func(_ context.Context, step int64) error {
			if step == 5 && b.ranks[1].m.Stats().Discards == 0 {
				failed.Store(b.ranks[1].m.QuorumID())
				broken.trip()
			}
			return nil
		}
		a.start(15)
		b.start(15)
		for rank := range 2 {
			w.reaches(15, rankOf(rank, a, b)...)
			w.agree(rankOf(rank, a, b)...)
		}
		inStep(t, a, b)
		if b.ranks[0].m.Stats().Discards == 0 {
			t.Errorf("b's rank 0 discarded nothing, though its rank 1 lost operations of the step")
		}
		for _, tr := range append(rankOf(0, a, b), rankOf(1, a, b)...) {
			tr.mu.Lock()
			for at := range tr.mu.hashes {
				if at.Step == 6 && at.QuorumID == failed.Load() {
					t.Errorf("%s committed step 6 in the quorum in which b's rank 1 lost it", tr.name)
				}
			}
			tr.mu.Unlock()
		}
		if h := a.ranks[0].m.Stats().Heals + b.ranks[0].m.Stats().Heals; h != 1 {
			t.Errorf("%d heals, want the first step's", h)
		}
	})
}

// One rank dies, and with it its replica; a new incarnation heals in all ranks.
func TestReplicaOfTwoRanksComesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b, c := w.replica("a", 2, nil).start(1<<40), w.replica("b", 2, nil).start(1<<40), w.replica("c", 2, nil).start(1<<40)
		w.reaches(5, rankOf(1, a, b, c)...)
		c.ranks[1].kill()
		c.ranks[0].kill()
		w.reaches(a.ranks[0].m.Step()+10, rankOf(0, a, b)...)
		back := w.replica("c", 2, nil).start(1 << 40)
		w.reaches(a.ranks[0].m.Step()+30, rankOf(1, a, b, back)...)
		for rank := range 2 {
			w.agree(rankOf(rank, a, b, c, back)...)
			if back.ranks[rank].m.Stats().Heals == 0 {
				t.Errorf("rank %d did not heal", rank)
			}
		}
	})
}

// Lost ballots in replicas of two ranks: all patterns of the four messages
// between two replicas. All ranks of a replica do the same, and all replicas.
func TestBallotsCutInReplicasOfTwoRanks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		make2 := func(name string, index int) *ranked {
			return w.replica(name, 2, func(rank int, b pg.Backend) pg.Backend {
				return newBallotCutter(b, func(from quorum.Position) []int {
					pattern := int(from.Step) / 2
					if from.Step%2 == 1 || pattern >= 16 || pattern>>(2*index+rank)&1 == 0 {
						return nil
					}
					return []int{1 - index}
				})
			})
		}
		a, b := make2("a", 0).start(34), make2("b", 1).start(34)
		for rank := range 2 {
			w.reaches(34, rankOf(rank, a, b)...)
			w.agree(rankOf(rank, a, b)...)
			for _, r := range []*ranked{a, b} {
				if r.ranks[rank].m.Stats().Heals > 1 {
					t.Errorf("%s healed because of a ballot", r.ranks[rank].name)
				}
			}
		}
		inStep(t, a, b)
	})
}

// Settings that the ranks of one replica do not share end training with a word.
func TestRanksThatDisagree(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		addr := groupStore(w) + "/a"
		w.tune = func(c *Config) { c.GroupRank, c.GroupWorldSize, c.GroupStore = 0, 2, addr }
		w.trainer("a").start(1)
		w.tune = func(c *Config) { c.GroupRank, c.GroupWorldSize, c.GroupStore = 1, 3, addr }
		odd := w.trainer("a").start(1)
		eventually(t, "the odd rank ends", func() bool {
			select {
			case <-odd.done:
				return true
			default:
				return false
			}
		})
		if odd.err == nil || errors.Is(odd.err, ErrClosed) {
			t.Errorf("ended with %v, want the group world sizes", odd.err)
		}
	})
}

// A replica whose ranks are at different positions heals from the other, also at
// step 0 and though its id is the first; its state goes nowhere.
func TestTornReplicaHeals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.replica("a", 2, nil), w.replica("b", 2, nil)
		a.ranks[0].m.mu.rank.Healed(quorum.Position{Cluster: "test", Step: 1, QuorumID: 50}, 0, quorum.Digest{})
		a.start(5)
		b.start(5)
		for rank := range 2 {
			w.reaches(5, rankOf(rank, a, b)...)
			w.agree(rankOf(rank, a, b)...)
			if heals := a.ranks[rank].m.Stats().Heals; heals != 1 {
				t.Errorf("a's rank %d healed %d times, want once", rank, heals)
			}
			if heals := b.ranks[rank].m.Stats().Heals; heals != 0 {
				t.Errorf("b's rank %d healed %d times from what is no state", rank, heals)
			}
		}
		inStep(t, a, b)
	})
}
