package tcp

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/pg"
)

// storm draws faults from one seed.
type storm struct {
	mu     sync.Mutex
	rand   *rand.Rand
	active bool
}

func (s *storm) draw(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rand.IntN(n)
}

func (s *storm) set(active bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active = active
}

func (s *storm) fault(f FrameInfo) Action {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.active || f.Type == "hello" {
		return Action{}
	}
	switch s.rand.IntN(60) {
	case 0:
		return Action{Close: true}
	case 1:
		return Action{Corrupt: true}
	case 2, 3, 4:
		return Action{Delay: time.Duration(s.rand.IntN(1000)) * time.Microsecond}
	default:
		return Action{}
	}
}

// TestStorm: whatever breaks, ops end, results that are reported good are
// right, and after the next Configure everything works.
func TestStorm(t *testing.T) {
	t.Parallel()
	const world = 4
	quorums := int64(60)
	if testing.Short() || !testkit.All() {
		quorums = 10
	}
	s := &storm{rand: rand.New(rand.NewPCG(7, 11))}
	w := newWorld(t, world, Options{Fault: s.fault})
	q := int64(1)
	for ; q <= quorums; q++ {
		members := w.everybody()
		s.rand.Shuffle(world, func(i, j int) { members[i], members[j] = members[j], members[i] })
		members = members[:2+s.draw(world-1)]
		// A link that a late fault cuts may fail one Configure, on all ranks; never
		// two, since no fault is drawn meanwhile.
		for _, err := range w.tryConfigure(q, members, func(int, *pg.Config) {}) {
			if err != nil {
				q++
				w.configure(q, members...)
				break
			}
		}
		w.reduceOK(members, 1+s.draw(50_000))
		s.set(true)
		var wg sync.WaitGroup
		for r, m := range members {
			wg.Go(func() { stormRank(t, w.backends[m], r, len(members), q) })
		}
		switch s.draw(4) {
		case 0:
			w.backends[members[0]].Abort(pg.Epoch{Cluster: "test", QuorumID: q}, errors.New("storm"))
		case 1:
			kill(w.backends[members[0]])
		}
		wg.Wait()
		s.set(false)
	}
	for i, b := range w.backends {
		if err := b.Configure(t.Context(), w.alone(q+1, i)); err != nil {
			t.Fatal(err)
		}
		eventually(t, "buffers come back", func() bool { return b.Stats().Buffers == 0 })
	}
}

// alone is a configuration of one member.
func (w *world) alone(q int64, member int) pg.Config {
	c := w.config(q, []int{member}, 0)
	c.StoreAddress += w.ids[member]
	return c
}

// stormRank runs ops of several kinds until one fails.
func stormRank(t *testing.T, b *Backend, rank, world int, q int64) {
	order := rand.New(rand.NewPCG(uint64(q), 5)) // the same on all ranks
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	for range 12 {
		n := 1 + order.IntN(3)*order.IntN(400_000)
		switch kind := order.IntN(4); kind {
		case 0, 1:
			x := tensors(pattern(rank, n))
			op := &pg.Op{Kind: pg.KindAllReduce, In: x, Out: x}
			if !stormOp(ctx, t, b, op) {
				return
			}
			if !slices.Equal(out(op, 0), sumOf(world, n)) {
				t.Errorf("quorum %d rank %d: wrong sum of %d", q, rank, n)
			}
		case 2:
			op := &pg.Op{Kind: pg.KindAllGather, In: tensors(pattern(rank, n)), Out: fresh(world, n)}
			if !stormOp(ctx, t, b, op) {
				return
			}
			for r := range world {
				if !slices.Equal(out(op, r), pattern(r, n)) {
					t.Errorf("quorum %d rank %d: wrong slot %d", q, rank, r)
				}
			}
		case 3:
			op := &pg.Op{Kind: pg.KindBallot, Ballot: []byte{byte(rank)}}
			if !stormOp(ctx, t, b, op) {
				return
			}
			for r, e := range op.Ballots {
				if !e.Here || e.Payload[0] != byte(r) || e.Digest != op.Ballots[rank].Digest {
					t.Errorf("quorum %d rank %d: ballot of %d is %+v", q, rank, r, e)
				}
			}
		}
	}
}

func stormOp(ctx context.Context, t *testing.T, b *Backend, op *pg.Op) bool {
	err := b.Submit(op).Wait(ctx)
	if ctx.Err() != nil {
		t.Errorf("%v did not end", op.Kind)
	}
	return err == nil
}
