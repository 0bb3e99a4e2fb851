package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/skerry-ft/skerry/internal/sim/checker"
	"github.com/skerry-ft/skerry/internal/sim/mix"
	"github.com/skerry-ft/skerry/internal/sim/raft"
	"github.com/skerry-ft/skerry/internal/sim/timeline"
	"github.com/skerry-ft/skerry/quorum"
)

// world is one run. Times are nanoseconds since it began.
type world struct {
	o      Options
	rng    *rand.Rand
	pcg    *rand.PCG
	now    int64
	queue  timeline.Queue[event]
	mutant Mutant

	servers    []*server
	raft       raft.Group[command] // of the servers
	cutServers [][]int64           // from, to: nothing passes until then
	members    []*member           // every incarnation, in the order of birth
	byID       map[quorum.ReplicaID]*member
	lives      map[string]int
	check      *checker.Checker
	calm       bool // faults are over
	loseReply  int  // commands whose replies will be lost
	repeats    int  // messages that may come twice

	struck, crashes, formed int
	newcomers               int
	flips                   int
	steps                   map[checker.StepName]bool
	err                     error
	rule                    string
	tracing                 bool
	goOn                    bool // nothing ends the run early
	log                     []string
	gaps                    gaps
}

// at makes do happen at a time.
func (w *world) at(t int64, do func()) { w.queue.Push(max(t, w.now), event{do: do}) }

// after makes do happen after d.
func (w *world) after(d time.Duration, do func()) { w.at(w.now+int64(d), do) }

// run lets events happen until the time end, a failure, or done.
func (w *world) run(end int64, done func() bool) bool {
	for n := 0; w.err == nil; n++ {
		next, more := w.queue.Next()
		if !more {
			return false
		}
		if n%32 == 0 && done() {
			return true
		}
		if next > end {
			w.now = end
			return false
		}
		at, e := w.queue.Pop()
		w.now = at
		if e.link != nil {
			w.arrive(&e)
		} else {
			e.do()
		}
	}
	return false
}

// fail ends the run: rule is broken.
func (w *world) fail(rule, format string, args ...any) {
	if w.goOn {
		return
	}
	if w.err == nil {
		w.rule = rule
		w.err = fmt.Errorf("%s: %s", rule, strings.ReplaceAll(fmt.Sprintf(format, args...), idMiddle, "."))
		w.note("FAILED: %v", w.err)
	}
}

// note keeps an event for people, in a run that is traced.
func (w *world) note(format string, args ...any) {
	if w.tracing {
		line := fmt.Sprintf("%12v  ", time.Duration(w.now)) + fmt.Sprintf(format, args...)
		w.log = append(w.log, strings.ReplaceAll(line, idMiddle, "."))
	}
}

// between draws a duration.
func (w *world) between(lo, hi time.Duration) time.Duration {
	return lo + time.Duration(w.pcg.Uint64()%uint64(hi-lo+1))
}

// attempted counts steps that somebody began.
func (w *world) attempted(k checker.StepName) { w.steps[k] = true }

// late is a deadline that a rank's group did not meet.
func (w *world) late(r *rank, what string, d time.Duration) {
	m := r.m
	if r.Quorum() == nil || !r.Standing() || m.hub.join != nil || !m.connected() || m.x.r.over {
		return
	}
	l := m.x.r
	undisturbed := max(m.disturbed, l.began, l.s.disturbed, m.x.began)
	w.check.MissedDeadline(l.book, m.id, r.QuorumID(), undisturbed, what+" "+d.String())
}

// newWorld makes a run that has not begun.
func newWorld(o Options, mu Mutant, tracing, keep bool) *world {
	pcg := rand.NewPCG(o.Seed, 1)
	w := &world{
		o: o, pcg: pcg, rng: rand.New(pcg), mutant: mu, tracing: tracing,
		byID: map[quorum.ReplicaID]*member{}, lives: map[string]int{}, steps: map[checker.StepName]bool{},
	}
	w.check = w.newChecker(keep)
	for range o.Servers {
		w.cutServers = append(w.cutServers, make([]int64, o.Servers))
		w.newServer()
	}
	for i := range o.Replicas {
		w.birth(fmt.Sprintf("r%d", i), 0, w.between(0, 500*time.Millisecond))
	}
	if o.Cause != "" {
		w.watchGaps()
	}
	if c := o.Cause; c != "" && causeOf(c).strike != nil {
		w.after(o.Strikes, func() { w.begin(causeOf(c)) })
	}
	for _, f := range o.Faults {
		w.after(f.At, func() { w.strike(f) })
	}
	return w
}

// newChecker makes the checkers of this world; keep: with a history.
func (w *world) newChecker(keep bool) *checker.Checker {
	return checker.New(checker.World{
		Fail:  w.fail,
		Clock: func() int64 { return w.now },
		Alive: func(id string) bool {
			m := w.byID[quorum.ReplicaID(id)]
			return m != nil && m.up
		},
		Line: func(id string, groupRank int) int {
			if m := w.byID[quorum.ReplicaID(id)]; m != nil {
				return m.ranks[groupRank].line
			}
			return 0
		},
		BeatEvery: beatEvery, ParityEvery: parityEvery, History: keep,
	})
}

// The second phase. After an election and the deadlines of PROTOCOL's Q6 a quorum
// stands; whoever Q9 keeps apart is let together again after LinkRetryAfter,
// which doubles.
const (
	settleTime = 2*raft.Election + keepAlive + 3*time.Second
	recovery   = 60*time.Second + 7*quorum.LinkRetryAfter
)

// runAll runs both phases.
func (w *world) runAll() Result {
	w.run(int64(w.o.Faulty), func() bool { return false })
	w.settleDown()
	from := w.now
	// Q6: a quorum forms, and steps are committed in it.
	limit := settleTime + joinTimeout + drainLimit + opDeadline + w.o.config().HeartbeatTimeout + w.o.Stuck
	if w.err == nil && !w.run(from+int64(limit), w.progressing(w.check.Newest())) && w.err == nil {
		w.fail("Q6", "faults stopped %v ago, and no step is committed\n%s", limit, w.picture())
	}
	if w.err == nil && !w.run(from+int64(recovery), w.together) && w.err == nil {
		w.fail("Q6", "faults stopped %v ago, and the replicas do not train together\n%s", recovery, w.picture())
	}
	took := w.now - from
	w.run(w.now+int64(time.Hour), func() bool { return len(w.steps) >= w.o.Steps })
	sum := w.check.Totals()
	r := Result{
		Options: w.o, Steps: len(w.steps), Faults: w.struck, Quorums: w.formed, Commits: sum.Commits, Crashes: w.crashes,
		Forwarded: sum.Forwarded, Discarded: sum.Discarded, Recovery: time.Duration(took),
		Gaps: [2]time.Duration{time.Duration(w.gaps.longest[0]), time.Duration(w.gaps.longest[1])},
		Rule: w.rule, Err: w.err, Trace: w.log, state: w.fingerprint(),
	}
	r.History = w.check.History()
	return r
}

// progressing says that two replicas or more have committed a step above p, in a
// quorum that stands.
func (w *world) progressing(p checker.Position) func() bool {
	return func() bool {
		n := 0
		for _, m := range w.members {
			if m.up && m.stands() && checker.PositionOf(m.pos()).Above(p) && m.pos().QuorumID == m.in().ID {
				n++
			}
		}
		return n >= min(2, w.o.Min)
	}
}

// together says that all replicas are up, are in one quorum, and have committed
// there.
func (w *world) together() bool {
	var first *member
	n := 0
	for _, m := range w.members {
		if !m.up {
			continue
		}
		n++
		if first == nil {
			first = m
		}
		for g, r := range m.ranks {
			o := first.ranks[g]
			if !r.Standing() || r.QuorumID() != o.QuorumID() || r.Position() != first.pos() ||
				r.Position().QuorumID != r.QuorumID() || r.bytes != o.bytes {
				return false
			}
		}
	}
	all := w.o.Replicas + w.newcomers
	most := all
	if w.o.Fixed > 0 {
		most = w.o.Fixed
	}
	return n == all && len(first.in().Participants) == most
}

// picture shows where everybody is.
func (w *world) picture() string {
	var b strings.Builder
	for _, s := range w.servers {
		all, committed := s.Log()
		fmt.Fprintf(&b, "server %d up=%t leads=%t term %d log %d commit %d", s.index, s.up, s.Leads(), s.Term(), all, committed)
		if s.leadership != nil {
			fmt.Fprintf(&b, " busy=%t: %v", s.leadership.busy, s.leadership.m.Decide(s.clock()).Reason)
		}
		b.WriteByte('\n')
	}
	for _, m := range w.members {
		if !m.up {
			continue
		}
		fmt.Fprintf(&b, "%s connected=%t", m.id, m.connected())
		if m.hub.join != nil {
			fmt.Fprintf(&b, " join #%d %v", m.hub.join.Number, m.hub.join.Kind)
		}
		b.WriteByte('\n')
		for _, r := range m.ranks {
			b.WriteString("  " + r.picture() + "\n")
		}
	}
	return b.String()
}

// picture shows where a rank is.
func (r *rank) picture() string {
	number, open := r.Attempt()
	s := fmt.Sprintf("%s at %v stands=%t whole=%t behind=%t asks=%t wants=%q requests=%t prepared=%t away=%t, attempt %d open=%t cut=%t phase %d op %d",
		r.name, r.Position(), r.Standing(), r.whole, r.Behind(), r.Asks(), r.Wanted(), r.request != nil, r.Prepared(), r.away,
		number, open, r.try.cut, r.phase, r.ops)
	if q := r.Quorum(); q != nil {
		s += fmt.Sprintf(" in %d.%d%v", q.ID, q.Round, r.members)
	}
	if q := r.request; q != nil {
		s += fmt.Sprintf(", its report is out=%t, awaits %d", q.out != nil, q.awaits)
	}
	return s
}

// fingerprint is a hash of where everybody is: what the same seed repeats.
func (w *world) fingerprint() uint64 {
	h := mix.Of(uint64(w.now), w.queue.Pushed(), uint64(len(w.members)), uint64(w.formed))
	for _, m := range w.members {
		for _, r := range m.ranks {
			h = mix.Of(h, r.bytes, uint64(r.Position().Step), uint64(r.Position().QuorumID), m.hub.next, r.moves)
		}
	}
	for _, s := range w.servers {
		all, _ := s.Log()
		h = mix.Of(h, s.Term(), uint64(all), s.Round())
	}
	return h
}
