package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Cause is one thing that a replica, a link or the lighthouse suffers or does, in
// worlds in which nothing else fails: the rows of PROTOCOL's §6a. All others must
// go on (L1).
type Cause struct {
	Name string
	Tell string // for people
	draw func(o *Options, rng *rand.Rand)
	// strike makes it happen, while the others train. nil: the list of faults does.
	strike func(w *world)
}

// Causes are all of them.
func Causes() []Cause {
	return []Cause{
		{Name: "hang", Tell: "a trainer hangs for ever, before its gradients or its ballot", strike: (*world).hangs},
		{Name: "odd", Tell: "a newcomer calls other collectives than the others", strike: func(w *world) { w.newcomer().ailment.odd = true }},
		{Name: "heal", Tell: "a newcomer's heals fail", draw: syncHeals, strike: func(w *world) { w.newcomer().ailment.unhealed = true }},
		{Name: "copy", Tell: "newcomers copy for three times StuckAfter, one each minute", draw: getsStuck, strike: (*world).copies},
		{Name: "rank", Tell: "one rank of a replica dies", strike: (*world).losesRank},
		{Name: "stopped", Tell: "a process is stopped for ever, or its host is gone", strike: (*world).stops},
		{Name: "starved", Tell: "a process gets no processor for up to 0.9 s, again and again", draw: slack(3 * linkSilence), strike: (*world).starves},
		{Name: "skew", Tell: "a member is 1.5 s later than the others, and one joins", draw: slack(skewed), strike: (*world).skews},
		{Name: "one-way", Tell: "a link is cut in one direction for ever", draw: cutsOne(FaultLong, 0)},
		{Name: "link", Tell: "a link is cut in both directions for ever", draw: cutsOne(FaultLong, 1)},
		{Name: "store", Tell: "the link to the member whose store is used is cut for ever", draw: cutsOne(FaultStore, 1)},
		{Name: "links", Tell: "links are cut for a moment, for long, or for ever", draw: cutsMany},
		{Name: "blip", Tell: "nobody reaches the lighthouse for 2 s", strike: func(w *world) {
			w.strikeServer(Fault{Kind: FaultDark, B: w.rng.IntN(2), Lasts: 2 * time.Second})
		}},
		{Name: "gone", Tell: "all lighthouse servers are gone for ever", strike: (*world).losesLighthouse},
		{Name: "leader", Tell: "the leading server is killed each few seconds", draw: manyServers, strike: (*world).losesLeaders},
	}
}

// causeOf finds a cause. A name that is none is the caller's error and panics.
func causeOf(name string) Cause {
	all := Causes()
	at := slices.IndexFunc(all, func(c Cause) bool { return c.Name == name })
	if at < 0 {
		panic(fmt.Sprintf("sim: no cause is named %q", name))
	}
	return all[at]
}

// causeLasts is for how long a cause is watched.
const causeLasts = 3 * time.Minute

// drawCause makes the options of a seed of a cause.
func drawCause(seed uint64, c Cause) Options {
	o := draw(seed)
	rng := rand.New(rand.NewPCG(seed, 2))
	o.Cause, o.Stuck, o.Fixed, o.Own, o.Faults = c.Name, 0, 0, 1, nil
	o.Replicas = 3 + rng.IntN(3)
	o.Min = 1 + rng.IntN(o.Replicas-1)
	o.StepTime = time.Duration(50+rng.IntN(100)) * time.Millisecond
	if rng.IntN(2) == 0 {
		o.Stuck = time.Duration(10+rng.IntN(20)) * time.Second
	}
	o.Strikes = time.Duration(8_000+rng.IntN(4_000)) * time.Millisecond
	o.Faulty = o.Strikes + causeLasts
	if c.draw != nil {
		c.draw(&o, rng)
	}
	return o
}

// skewed is how much later one member is than the others in each step.
const skewed = 1500 * time.Millisecond

func slack(d time.Duration) func(o *Options, rng *rand.Rand) {
	return func(o *Options, _ *rand.Rand) { o.Slack = d }
}

func syncHeals(o *Options, _ *rand.Rand) { o.InitSync = false }

func getsStuck(o *Options, rng *rand.Rand) {
	o.Stuck = time.Duration(10+rng.IntN(20)) * time.Second
}

func manyServers(o *Options, rng *rand.Rand) { o.Servers = 3 + 2*rng.IntN(2) }

// begin makes a world's cause strike, once all train together.
func (w *world) begin(c Cause) {
	if !w.together() {
		w.after(100*time.Millisecond, func() { w.begin(c) })
		return
	}
	w.note("cause: %s", c.Tell)
	w.struck++
	w.gaps.rest = w.now + int64(causeAtRest)
	c.strike(w)
}

// hangs makes a trainer hang.
func (w *world) hangs() {
	m := w.pick(w.rng.IntN(64))
	m.ailment.hung, m.ailment.late = true, w.rng.IntN(2) == 0
	w.note("the trainer of %s hangs, after it sent gradients: %t", m.id, m.ailment.late)
}

// newcomer adds a replica.
func (w *world) newcomer() *member {
	w.newcomers++
	name := fmt.Sprintf("n%d", w.newcomers)
	if w.rng.IntN(2) == 0 {
		name = fmt.Sprintf("a%d", w.newcomers) // the smallest id
	}
	w.birth(name, 0, w.between(0, 100*time.Millisecond))
	return w.members[len(w.members)-1]
}

// copies adds a newcomer that copies a state before it joins, now and each minute.
func (w *world) copies() {
	if w.calm {
		return
	}
	m := w.newcomer()
	m.ailment.joins = w.now + int64(3*w.o.Stuck)
	w.after(time.Minute, w.copies)
}

// losesRank kills a rank: its links end, the replica says nothing more, and ends.
func (w *world) losesRank() {
	m := w.pick(w.rng.IntN(64))
	w.note("a rank of %s dies", m.id)
	m.ailment.hung, m.ailment.joins = true, w.now+int64(time.Hour)
	w.peersNotice(m, w.between(200*time.Microsecond, 5*time.Millisecond))
	m.after(rankGone, func() { m.exit("a rank is gone") })
}

// rankGone is after which time a replica ends that has lost a rank.
const rankGone = 500 * time.Millisecond

// stops stops a process for as long as the cause is watched.
func (w *world) stops() {
	m := w.pick(w.rng.IntN(64))
	m.ailment.hung = true
	w.strikeMember(m, Fault{Kind: FaultPause, Lasts: w.o.Faulty - time.Duration(w.now)})
}

// starves stops a process for a moment, again and again.
func (w *world) starves() {
	m := w.pick(w.rng.IntN(64))
	var again func()
	again = func() {
		if w.calm || !m.up {
			return
		}
		w.strikeMember(m, Fault{Kind: FaultPause, Lasts: w.between(100*time.Millisecond, 900*time.Millisecond)})
		w.after(w.between(2*time.Second, 8*time.Second), again)
	}
	again()
}

// skews makes a member slow, and adds one.
func (w *world) skews() {
	w.pick(w.rng.IntN(64)).ailment.slow = skewed
	w.newcomer()
}

func (w *world) losesLighthouse() {
	for _, s := range w.servers {
		s.stop()
	}
}

// losesLeaders kills the leader again and again.
func (w *world) losesLeaders() {
	if w.calm {
		return
	}
	w.strikeServer(Fault{Kind: FaultLeader, Lasts: w.between(300*time.Millisecond, 2*time.Second)})
	w.after(w.between(4*time.Second, 12*time.Second), w.losesLeaders)
}
