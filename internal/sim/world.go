package sim

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// Options are what a seed draws. They are printed when a run fails.
type Options struct {
	Seed      uint64
	Replicas  int
	Ranks     int
	Min       int
	Faults    time.Duration // how long faults happen
	FaultMean time.Duration // mean time between two
	DelayMax  time.Duration // of one message
	StepTime  time.Duration // of forward and backward
	Sync      bool          // heals happen before collectives
	Kinds     [faultKinds]int
}

// draw makes the options of a seed.
func draw(seed uint64) Options {
	rng := rand.New(rand.NewPCG(seed, 0))
	ms := func(lo, hi int) time.Duration { return time.Duration(lo+rng.IntN(hi-lo+1)) * time.Millisecond }
	o := Options{
		Seed: seed, Replicas: 2 + rng.IntN(4), Ranks: 1 + rng.IntN(2),
		Faults: ms(2_000, 15_000), FaultMean: ms(100, 3_000),
		DelayMax: ms(1, 30), StepTime: ms(20, 150), Sync: rng.IntN(2) == 0,
	}
	o.Min = 1 + rng.IntN(o.Replicas)
	for i := range o.Kinds {
		if rng.IntN(3) > 0 { // a third of the kinds is absent, so that rare ones meet
			o.Kinds[i] = 1 + rng.IntN(4)
		}
	}
	return o
}

// world is one run.
type world struct {
	o     Options
	rng   *rand.Rand
	now   time.Time
	start time.Time
	queue events
	order uint64

	lh      *server
	members []*member // every incarnation, in the order of birth
	wires   map[pair]*wire
	check   *checker
	calm    bool // faults are over
	err     error
	log     []string
}

// event is something that happens at a time. Equal times keep their order.
type event struct {
	at    time.Time
	order uint64
	do    func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at.Before(e[j].at) || e[i].at.Equal(e[j].at) && e[i].order < e[j].order
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	x := old[len(old)-1]
	*e = old[:len(old)-1]
	return x
}

// at makes do happen after d.
func (w *world) after(d time.Duration, do func()) {
	w.order++
	heap.Push(&w.queue, event{w.now.Add(d), w.order, do})
}

// run lets events happen until the time end, a failure, or done.
func (w *world) run(end time.Time, done func() bool) bool {
	for len(w.queue) > 0 && w.err == nil {
		if done() {
			return true
		}
		if w.queue[0].at.After(end) {
			w.now = end
			return false
		}
		e := heap.Pop(&w.queue).(event)
		w.now = e.at
		e.do()
	}
	return false
}

// fail ends the run: rule is broken.
func (w *world) fail(rule, format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf("%s: %s", rule, fmt.Sprintf(format, args...))
		w.note("FAILED: %v", w.err)
	}
}

// lastEvents is how many events a failure prints.
const lastEvents = 50

// note keeps an event for people.
func (w *world) note(format string, args ...any) {
	if len(w.log) >= 4*lastEvents {
		w.log = append(w.log[:0], w.log[len(w.log)-lastEvents:]...)
	}
	w.log = append(w.log, fmt.Sprintf("%10v  ", w.now.Sub(w.start))+fmt.Sprintf(format, args...))
}

// between draws a duration.
func (w *world) between(lo, hi time.Duration) time.Duration {
	return lo + time.Duration(w.rng.Int64N(int64(hi-lo)+1))
}

// Timeouts of the members, beside those of quorum.Config.
const (
	beatEvery    = 100 * time.Millisecond
	linkSilence  = 500 * time.Millisecond // a silent link is noticed
	opDeadline   = 2 * time.Second        // an op, a configure
	healDeadline = time.Second
	lateReplica  = "-" // separates a name from its life
)

// config is the job's.
func (o Options) config() quorum.Config {
	c := quorum.DefaultConfig()
	c.MinReplicas, c.JoinTimeout, c.StuckAfter = o.Min, 3*time.Second, 0
	return c
}

// Run runs a seed through both phases. The error says which rule was broken,
// and how to repeat it.
func Run(seed uint64) (Result, error) {
	o := draw(seed)
	start := time.Unix(1_700_000_000, 0)
	w := &world{
		o: o, rng: rand.New(rand.NewPCG(seed, 1)), now: start, start: start,
		wires: map[pair]*wire{}, check: newChecker(),
	}
	w.lh = newServer(w, quorum.NewLedger("x", "default", 0))
	for i := range o.Replicas {
		w.birth(fmt.Sprintf("r%d", i), 0, w.between(0, 500*time.Millisecond))
	}
	w.after(w.between(0, o.FaultMean), w.faults)
	w.run(start.Add(o.Faults), func() bool { return false })
	w.settleDown()
	limit := w.now.Add(recovery)
	from := w.now
	together := w.run(limit, w.together)
	if !together && w.err == nil {
		w.fail("Q6", "faults stopped %v ago, and the replicas do not train together\n%s", w.now.Sub(from), w.picture())
	}
	r := Result{
		Options: o, Quorums: w.lh.formed, Commits: w.check.commits, Crashes: w.check.crashes,
		Forwarded: w.check.forwarded, Discarded: w.check.discarded, Recovery: w.now.Sub(from),
	}
	if w.err != nil {
		return r, fmt.Errorf("%w\n%s", w.err, w.report())
	}
	return r, nil
}

// recovery bounds the second phase: a join timeout, a heartbeat timeout, and
// the members' own deadlines, several times over, and twice the time for which
// Q9 keeps two members apart whose link broke in two quorums running.
const recovery = 40*time.Second + 2*quorum.LinkRetryAfter

// Result is what a run saw.
type Result struct {
	Options   Options
	Quorums   int // formed, rounds included
	Commits   int
	Crashes   int
	Forwarded int // contested steps
	Discarded int
	Recovery  time.Duration // from the end of the faults to training together
}

// report is what a failure prints: options, the last events, how to repeat it.
func (w *world) report() string {
	s := fmt.Sprintf("options %+v\n", w.o)
	for _, l := range w.log[max(0, len(w.log)-lastEvents):] {
		s += l + "\n"
	}
	return s + fmt.Sprintf("repeat: go test ./internal/sim -run TestSeed$ -seed %d", w.o.Seed)
}
