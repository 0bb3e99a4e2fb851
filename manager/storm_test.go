package manager

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/quorum"
)

var (
	stormFaults = flag.Int("storm.faults", 6, "faults of one storm; make soak takes many")
	stormSeed   = flag.Uint64("storm.seed", 0, "seed of the storm; 0: a new one")
)

// storm draws faults until it has had enough, and keeps who is alive.
type storm struct {
	w    *world
	rng  *rand.Rand
	size int // ranks of a replica

	live    []*ranked
	all     []*ranked
	flakies map[*trainer]*flaky

	mu struct {
		sync.Mutex

		rng *rand.Rand // for the goroutines of backends
		cut bool       // ballots are being lost
	}
}

// Whatever happens, replicas at one position hold the same bytes (C1), and once
// the faults stop, all of them train together again (Q6).
func TestStorm(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 2} {
		t.Run(fmt.Sprintf("ranks=%d", size), func(t *testing.T) {
			t.Parallel()
			seed := *stormSeed
			if seed == 0 {
				seed = rand.Uint64()
			}
			synctest.Test(t, func(t *testing.T) {
				t.Logf("again: go test ./manager -run TestStorm/ranks=%d -storm.seed %d -storm.faults %d", size, seed, *stormFaults)
				s := &storm{w: newWorld(t), rng: rand.New(rand.NewPCG(seed, 1)), size: size, flakies: make(map[*trainer]*flaky)}
				s.mu.rng = rand.New(rand.NewPCG(seed, 2))
				for i := range 4 {
					s.start(string(rune('a' + i)))
				}
				s.advance(3)
				for i := range *stormFaults {
					s.fault(i)
				}
				s.calm()
			})
		})
	}
}

// start makes a replica whose links may fail.
func (s *storm) start(name string) {
	r := s.w.replicaOf(name, s.size, func(rank int, b pg.Backend) pg.Backend {
		return &flaky{Backend: newBallotCutter(b, s.lose)}
	}, func(tr *trainer, outer pg.Backend) { s.flakies[tr] = outer.(*flaky) })
	r.start(1 << 40)
	s.live = append(s.live, r)
	s.all = append(s.all, r)
}

// lose draws whose ballots a rank does not get.
func (s *storm) lose(quorum.Position) []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.mu.cut || s.mu.rng.IntN(4) > 0 {
		return nil
	}
	return []int{s.mu.rng.IntN(4)}
}

func (s *storm) setCut(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.cut = on
}

// fault makes one fault happen, and lets training go on for a moment.
func (s *storm) fault(i int) {
	victim := s.live[s.rng.IntN(len(s.live))]
	kind := s.rng.IntN(6)
	s.w.t.Logf("%d: fault %d at %s, step %d", i, kind, victim.ranks[0].name, victim.ranks[0].m.Step())
	switch kind {
	case 0: // a replica dies, and comes back
		if len(s.live) < 3 {
			return
		}
		s.kill(victim)
		s.pause()
		s.start(victim.ranks[0].name[:1])
	case 1, 2: // a link breaks
		s.flakies[victim.ranks[s.rng.IntN(s.size)]].trip()
	case 3: // ballots are lost for a while
		s.setCut(true)
		s.pause()
		s.pause()
		s.setCut(false)
	case 4: // the lighthouse loses sight of one
		id := victim.ranks[0].m.ReplicaID()
		s.w.lh.block(id, true)
		s.pause()
		s.w.lh.block(id, false)
	case 5: // the lighthouse is away
		s.w.lh.stop()
		s.pause()
		s.w.lh.returnAsNewLeader(s.w.t)
	}
	s.pause()
}

func (s *storm) kill(r *ranked) {
	for _, tr := range r.ranks {
		tr.kill()
		delete(s.flakies, tr)
	}
	for i, o := range s.live {
		if o == r {
			s.live = append(s.live[:i], s.live[i+1:]...)
			break
		}
	}
}

// pause lets up to half a second pass.
func (s *storm) pause() {
	<-time.After(time.Duration(s.rng.IntN(500)) * time.Millisecond)
}

// advance waits until all have made some steps together.
func (s *storm) advance(steps int64) {
	for _, r := range s.live {
		for _, tr := range r.ranks {
			s.w.reaches(tr.m.Step()+steps, tr)
		}
	}
}

// calm checks what must be so once the faults have stopped.
func (s *storm) calm() {
	s.w.eventually("all take part in one quorum", func() bool {
		first := s.live[0].ranks[0].m
		for _, r := range s.live {
			for _, tr := range r.ranks {
				if tr.m.QuorumID() != first.QuorumID() || tr.m.NumParticipants() != len(s.live) {
					return false
				}
			}
		}
		return true
	})
	s.advance(5)
	for rank := range s.size {
		s.w.agree(rankOf(rank, s.all...)...)
	}
}
