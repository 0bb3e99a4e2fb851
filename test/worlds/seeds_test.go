package worlds

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/lighthouse/cluster"
	"github.com/skerry-ft/skerry/manager"
)

var (
	seedCount = flag.Int("worlds.seeds", 0, "how many seeds TestSeeds runs, and TestSeedsOfServers an eighth as many; 0: a few")
	seedFrom  = flag.Uint64("worlds.from", 1, "the first seed")
)

// fewSeeds are run by default; .ci/run takes hundreds.
const fewSeeds = 10

// TestSeeds runs worlds that are drawn from seeds.
func TestSeeds(t *testing.T) {
	t.Parallel()
	n := *seedCount
	if n == 0 {
		n = fewSeeds
	}
	for i := range n {
		seed := *seedFrom + uint64(i)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			runSeed(t, seed)
		})
	}
}

// seeded is a world that runs by a seed.
type seeded struct {
	w        *world
	d        *drawn
	replicas []*replica
	houseUp  bool
	backup   *cluster.Memory // what the lighthouse knew when it stopped first
	over     atomic.Bool
	whole    time.Duration // when a replica was seen whole last, after the faults
}

func runSeed(t *testing.T, seed uint64) {
	s := &seeded{houseUp: true}
	s.d = draw(seed, &s.over)
	defer func() {
		if t.Failed() {
			t.Logf("seed %d:\n%v\nrepeat: go test ./test/worlds -run 'TestSeeds$' -worlds.from %d -worlds.seeds 1 -count 20",
				seed, s.d, seed)
		}
	}()
	inWorld(t, s.d.options, func(w *world) {
		s.w, w.onExit = w, s.ended
		if s.d.traits[traitDelay] {
			w.net.Delay(delays(seed))
		}
		for i, r := range s.d.replicas {
			s.replicas = append(s.replicas, w.replica(r.name, i, r.size, r.m))
		}
		s.safety()
		s.liveness()
		w.book.sum()
	})
}

// delays gives each link a delay of its own, of 0 to 3 ms.
func delays(seed uint64) func(from, to string) time.Duration {
	return func(from, to string) time.Duration {
		x := seed
		for _, c := range from + ">" + to {
			x = x*1099511628211 + uint64(c)
		}
		return time.Duration(x % uint64(3*time.Millisecond))
	}
}

// safety is the phase in which faults happen, and nothing may be wrong.
func (s *seeded) safety() {
	began := s.w.now()
	type event struct {
		at time.Duration
		do func()
	}
	var events []event
	for i, r := range s.d.replicas {
		events = append(events, event{r.begins, func() { s.revive(s.replicas[i]) }})
	}
	for _, f := range s.d.faults {
		events = append(events, event{f.at, func() { s.strike(f) }})
	}
	slices.SortStableFunc(events, func(a, b event) int { return int(a.at - b.at) })
	for _, e := range events {
		time.Sleep(max(e.at-(s.w.now()-began), 0))
		e.do()
	}
	time.Sleep(max(s.d.length-(s.w.now()-began), 0))
}

// liveness is the phase in which all is mended, and all that behave train together.
func (s *seeded) liveness() {
	w := s.w
	s.over.Store(true)
	w.book.fault("world", "the faults are over")
	for _, p := range w.procs() {
		w.net.HoldBoth(p.host.Name, "lighthouse", false)
	}
	for i, a := range s.replicas {
		for _, b := range s.replicas[i+1:] {
			w.plane.Cut(a.name, b.name, false)
		}
	}
	s.openHouse(fault{})
	for _, r := range s.replicas {
		s.revive(r)
	}
	s.whole = w.now()
	at := s.step()
	w.book.line()
	if !w.within(s.patience(), fmt.Sprintf("the replicas at step %d", at+10), func() bool { return s.together(w.book.lineFrom(at) + 10) }) {
		return
	}
	s.rest()
}

// step is the highest that all ranks of a replica hold: what single ranks have beyond
// that is of a state that is lost.
func (s *seeded) step() (at int64) {
	for _, r := range s.replicas {
		whole := int64(math.MaxInt64)
		for _, p := range r.ranks {
			whole = min(whole, p.atStep())
		}
		if r.up() {
			at = max(at, whole)
		}
	}
	return at
}

// ended looks why a process has ended by itself.
func (s *seeded) ended(p *proc, err error) {
	// It may have gone on since, and learn only now.
	slow := slices.ContainsFunc(s.w.procs(), func(o *proc) bool { return o.r == p.r && o.life == p.life && o.wasSlow() })
	evicted := s.d.traits[traitEvictStuck] && errors.Is(err, manager.ErrEvicted) && slow
	early := errors.Is(err, manager.ErrUnreachable) // it began while the lighthouse was down
	sibling := errors.Is(err, manager.ErrRankLost)
	lost := s.d.traits[traitInPlace] && errors.Is(err, manager.ErrStateLost)
	if !evicted && !early && !sibling && !lost {
		s.w.book.wrong("%s: training ended: %v", p.name, err)
	}
}

// tend starts what has ended by itself again, as whoever runs the job would.
func (s *seeded) tend() {
	for _, r := range s.replicas {
		s.revive(r)
	}
}

// stuckSteps is in how many steps of the middle length a replica that makes no progress
// is stuck, where that is longer than StuckAfter (quorum/pace.go).
const stuckSteps = 10

// patience is how long it may take until all train together.
func (s *seeded) patience() time.Duration {
	o := s.d.options
	stuck := max(o.rules.StuckAfter, stuckSteps*s.d.slowest)
	alone := time.Duration(0) // until who hangs alone in its quorum is left
	if s.d.traits[traitHang] {
		alone = 10 * stuck
	}
	if s.d.traits[traitCuts] {
		alone += 4 * time.Minute // until links that broke again and again are tried anew
	}
	return 30*time.Second + alone + 3*(o.rules.JoinTimeout+stuck) + 3*o.stepTimeout +
		time.Duration(len(s.replicas))*s.d.heal + 40*s.d.slowest + s.d.long
}

// together: as many as may take part are at step at least.
func (s *seeded) together(step int64) bool {
	s.tend()
	there, want := 0, 0
	for _, r := range s.replicas {
		if r.manners.odd || r.manners.skips {
			// Where the others were dead together, the job is what it calls, and they are
			// the odd ones: of two that differ the newcomer is refused.
			if slices.ContainsFunc(r.ranks, func(p *proc) bool { return p.atStep() >= step }) {
				return true
			}
			continue
		}
		if !slices.ContainsFunc(r.ranks, func(p *proc) bool { return p.hangs() }) {
			want++
		}
		if !slices.ContainsFunc(r.ranks, func(p *proc) bool { return p.atStep() < step }) {
			there++
		}
	}
	if most := s.d.options.rules.MaxReplicas; most > 0 {
		want = min(want, most)
	}
	return there >= want || want < s.d.options.rules.MinReplicas || s.stateIsLost()
}

// stateIsLost: for half of the time that it may take no replica that behaves has had
// all its ranks at one position, as where the only donor hung while one rank of each had
// healed; or only one that calls other collectives holds the newest. A holder is waited
// for (PROTOCOL §5): there is nothing whole to go on from.
func (s *seeded) stateIsLost() bool {
	newest := int64(0)
	for _, r := range s.replicas {
		if r.manners.odd || r.manners.skips {
			newest = max(newest, r.ranks[0].atStep())
		}
	}
	for _, r := range s.replicas {
		at := r.ranks[0].atStep()
		whole := !slices.ContainsFunc(r.ranks, func(p *proc) bool { return p.isOut() || p.atStep() != at })
		if whole && at >= newest && !r.manners.odd && !r.manners.skips {
			s.whole = s.w.now()
		}
	}
	return s.w.now()-s.whole > s.patience()/2
}

// rest looks that a job with no faults goes on step by step.
func (s *seeded) rest() {
	w := s.w
	if s.d.traits[traitHang] || s.d.traits[traitOdd] {
		return // now and then it is tried whether they are well
	}
	// A trainer that was to hang for a while may still do so, and heals when it goes on.
	paused := func() bool {
		return slices.ContainsFunc(w.procs(), func(p *proc) bool { return p.alive() && p.isSlow() })
	}
	if !w.within(s.patience(), "all trainers go on", func() bool { return !paused() && s.together(s.step()) }) {
		return
	}
	time.Sleep(2*time.Second + 5*s.d.slowest)
	w.book.watch()
	time.Sleep(5*time.Second + 5*s.d.slowest)
	if gap, most := w.book.longest(), 3*s.d.slowest+time.Second; gap > most {
		w.book.wrong("with no fault any more, %v without a commit, want at most %v", gap, most)
	}
}

// hangs: the trainer hangs for ever.
func (p *proc) hangs() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.hung
}

// isSlow: the trainer takes longer than one that behaves, now.
func (p *proc) isSlow() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.slow || p.mu.hung
}

// wasSlow: the trainer takes longer than one that behaves, or did.
func (p *proc) wasSlow() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.wasSlow || p.mu.hung
}

// drains: the replica was asked to leave.
func (p *proc) drains() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.leaves
}

// forgetLedger makes the next lighthouse begin a new cluster.
func (w *world) forgetLedger(lost bool) {
	if lost {
		w.memory = cluster.NewMemory()
	}
}
