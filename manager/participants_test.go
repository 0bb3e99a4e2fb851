package manager

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// shards notes by which share of the data each replica computed each step, in the
// attempt that was tried last.
type shards struct {
	mu    sync.Mutex
	taken map[int64]map[string]Participants
}

// take asks, as a sampler does after StartQuorum.
func (s *shards) take(ctx context.Context, tr *trainer) error {
	p, err := tr.m.WaitParticipants(ctx)
	if errors.Is(err, ErrStepFailed) {
		return nil // ShouldCommit discards it
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	step := tr.m.Step() + 1
	if s.taken[step] == nil {
		s.taken[step] = make(map[string]Participants)
	}
	s.taken[step][tr.name] = p
	return nil
}

// check says whether those who took part in a step shared the data out: every
// share once.
func (s *shards) check(t *testing.T, step int64, names ...string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var ranks, want []int
	for i, name := range names {
		p := s.taken[step][name]
		ranks, want = append(ranks, p.Rank), append(want, i)
		if p.Count != len(names) {
			t.Errorf("step %d: %s read share %d of %d, want one of %d", step, name, p.Rank, p.Count, len(names))
		}
	}
	slices.Sort(ranks)
	if !slices.Equal(ranks, want) {
		t.Errorf("step %d: shares %v were read, want %v", step, ranks, want)
	}
}

// A quorum falls while the trainers compute on their shares of the data, before
// any has reduced anything: the step would go on in the next quorum, without the
// dead replica's share and with the others' counted wrongly. It is discarded.
func TestSharesAreThoseOfTheStepsQuorum(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b, c := w.trainer("a"), w.trainer("b"), w.trainer("c")
		s := &shards{taken: make(map[int64]map[string]Participants)}
		gates := []*turnstile{newTurnstile(), newTurnstile(), newTurnstile()}
		for i, tr := range []*trainer{a, b, c} {
			tr.before = func(ctx context.Context, step int64) error {
				if err := s.take(ctx, tr); err != nil || step != 5 {
					return err
				}
				return gates[i].wait(ctx)
			}
			tr.start(1 << 40)
		}
		for _, g := range gates {
			<-g.at
		}
		old := b.m.QuorumID()
		a.kill()
		eventually(t, "the survivors are in the next quorum", func() bool {
			return b.m.QuorumID() > old && c.m.QuorumID() == b.m.QuorumID() && b.m.NumParticipants() == 2
		})
		close(gates[1].open)
		close(gates[2].open)
		w.reaches(10, b, c)
		w.agree(a, b, c)
		s.check(t, 5, "a", "b", "c")
		for step := int64(6); step <= 10; step++ {
			s.check(t, step, "b", "c")
		}
	})
}

// While the next quorum is on its way, WaitParticipants waits for it, and
// NumParticipants is still the last one's.
func TestWaitParticipantsWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b, c := w.trainer("a"), w.trainer("b"), w.trainer("c")
		s := &shards{taken: make(map[int64]map[string]Participants)}
		waited := make(chan struct{})
		var once sync.Once
		for _, tr := range []*trainer{a, b, c} {
			tr.before = func(ctx context.Context, _ int64) error {
				if tr == b && !b.standing() {
					once.Do(func() {
						short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
						defer cancel()
						if p, err := b.m.WaitParticipants(short); err == nil {
							t.Errorf("%+v while there is no quorum: NumParticipants = %d", p, b.m.NumParticipants())
						}
						close(waited)
					})
				}
				return s.take(ctx, tr)
			}
		}
		if _, err := a.m.WaitParticipants(t.Context()); err == nil {
			t.Error("WaitParticipants without StartQuorum is accepted")
		}
		for _, tr := range []*trainer{a, b, c} {
			tr.start(1 << 40)
		}
		w.reaches(5, a, b, c)
		w.lh.stop()
		a.kill()
		<-waited
		at := b.m.Step()
		w.lh.returnAsNewLeader(t)
		w.reaches(at+10, b, c)
		w.agree(a, b, c)
		for step := at + 2; step <= at+10; step++ {
			s.check(t, step, "b", "c")
		}
	})
}
