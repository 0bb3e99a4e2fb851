package checker

import (
	"slices"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// promise is one replica's part in an attempt at a step.
type promise struct {
	id string
	StepName
}

// part is a group rank's part of the state at a position.
type part struct {
	Position
	g int
}

// stray is one of a line that began with a flipped bit.
type stray struct {
	line int
	part
}

// branch is what one group rank makes of an attempt.
type branch struct {
	StepName
	g int
}

// polled is one replica's attempt.
type polled struct {
	id      string
	attempt uint64
}

// World is what the checkers ask of the world that they judge, and how they tell it
// that a rule is broken.
type World struct {
	Fail  func(rule, format string, args ...any)
	Clock func() int64                       // the world's time, in nanoseconds
	Alive func(id string) bool               // whether the replica's process is up, whatever the leader believes; nil: it is not
	Line  func(id string, groupRank int) int // whose bytes a rank holds; nil: all the same

	BeatEvery   time.Duration // how often replicas say that they live
	ParityEvery int64         // in how many steps they compare states
	History     bool          // keep what History returns
}

// Totals count what a checker was told of.
type Totals struct{ Commits, Forwarded, Discarded int }

// Checker knows the whole world.
type Checker struct {
	world World

	wrote    []formedView // by index in the log
	newest   Answer
	lists    map[int64][]string
	settled  map[Position]Settled
	bytes    map[part]uint64
	strays   map[stray]uint64  // the same, of lines that began with a flipped bit
	born     map[int]int64     // after which step each line began, or was last seen uncompared
	dropped  map[branch]uint64 // attempts that a prepared rank discarded, and what they would have come to
	kept     map[branch]uint64 // and those that a rank committed
	done     map[Position]bool // steps that a rank committed
	excused  map[Position]bool // discarded where no replica in sight knew of them
	promised map[promise]uint64
	vowed    map[promise]uint64 // by ranks that have neither given up nor were behind
	heard    map[promise]bool   // a rank of the replica heard that no ballots can commit the attempt
	tallies  map[polled]string
	taken    map[string]Answer
	history  []Observation // only if the world wants it
	totals   Totals
}

// New makes a checker of a world that has not begun.
func New(w World) *Checker {
	return &Checker{
		world: w, lists: map[int64][]string{}, settled: map[Position]Settled{}, bytes: map[part]uint64{},
		dropped: map[branch]uint64{}, kept: map[branch]uint64{}, done: map[Position]bool{}, excused: map[Position]bool{},
		strays: map[stray]uint64{}, born: map[int]int64{},
		promised: map[promise]uint64{}, vowed: map[promise]uint64{}, heard: map[promise]bool{}, tallies: map[polled]string{}, taken: map[string]Answer{},
	}
}

func (c *Checker) fail(rule, format string, args ...any) { c.world.Fail(rule, format, args...) }

func (c *Checker) clock() int64 { return c.world.Clock() }

// lives says that a replica's process is up.
func (c *Checker) lives(id string) bool { return c.world.Alive != nil && c.world.Alive(id) }

// History is what took effect and was told until now, if the world wants it.
func (c *Checker) History() []Observation { return c.history }

// Totals are those until now.
func (c *Checker) Totals() Totals { return c.totals }

// Newest is the newest step that a rank has committed.
func (c *Checker) Newest() Position {
	var top Position
	for p := range c.done {
		if p.Above(top) {
			top = p
		}
	}
	return top
}

func (c *Checker) observe(o Observation) {
	if c.world.History {
		c.history = append(c.history, o)
	}
}

// gone notes that a leader no longer counts a replica as live.
func (c *Checker) gone(id string) {
	c.observe(Observation{Began: c.clock(), Ended: c.clock(), Gone: id})
}

// Floor is the newest quorum in the ledger: nothing that is decided from now on
// may be older.
func (c *Checker) Floor() Answer { return c.newest }

// Written notes that a command took effect, at its place in the log; each server
// says it once. It checks Q1, Q2 and C6 on the ledger, whichever leader wrote it.
func (c *Checker) Written(index int, formed quorum.Formed) {
	f := viewOf(formed)
	for len(c.wrote) <= index {
		c.wrote = append(c.wrote, formedView{})
	}
	if old := &c.wrote[index]; old.ID != 0 {
		if old.Answer != f.Answer || !slices.Equal(old.members, f.members) {
			c.fail("Q2", "two servers hold different quorums at %d: %v and %v", index, *old, f)
		}
		return
	}
	c.wrote[index] = f
	o := f.observed()
	o.Began, o.Ended = c.clock(), c.clock()
	c.observe(o)
	if !c.newest.less(f.Answer) {
		c.fail("Q1", "%v was written after %v", f.Answer, c.newest)
	}
	if c.newest.less(f.Answer) {
		c.newest = f.Answer
	}
	c.oneList(f)
	for _, v := range f.settled {
		c.settle(v)
	}
}

// oneList checks Q2.
func (c *Checker) oneList(f formedView) {
	if old, ok := c.lists[f.ID]; ok && !slices.Equal(old, f.members) {
		c.fail("Q2", "id %d had %v, now %v", f.ID, old, f.members)
	}
	c.lists[f.ID] = f.members
}

// settle checks C6.
func (c *Checker) settle(v Settled) {
	old, ok := c.settled[v.Position]
	if ok && (old.Forward != v.Forward || old.Digests != v.Digests) {
		c.fail("C6", "step %v was settled as %+v, now as %+v", v.Position, old, v)
	}
	if ok {
		return
	}
	c.settled[v.Position] = v
	if v.Forward {
		c.totals.Forwarded++
	} else {
		c.totals.Discarded++
	}
}

// Released checks what a leader tells.
func (c *Checker) Released(b *Book, now time.Duration, r Release) {
	f := viewOfQuorum(r.Quorum)
	o := f.observed()
	o.Began, o.Ended, o.Server = r.Decided, r.At, r.Server
	c.observe(o)
	switch {
	case r.Changed && !r.Floor.less(f.Answer):
		c.fail("Q1", "%v was decided when the ledger held %v", f.Answer, r.Floor)
	case !r.Changed && f.Answer.less(r.Floor):
		c.fail("Q1", "%v is told again, and the ledger held %v when that was decided", f.Answer, r.Floor)
	}
	c.oneList(f)
	for _, v := range f.settled {
		c.settle(v)
	}
	b.formed(now, f, r.Changed, r.Answers)
}

// TookAnswer notes that a rank of a replica takes an answer: Q1 and Q2 as they see them.
func (c *Checker) TookAnswer(rank, id string, q *quorum.Quorum) {
	f := viewOfQuorum(q)
	if f.Answer.less(c.taken[rank]) {
		c.fail("Q1", "%s takes %v after %v", rank, f.Answer, c.taken[rank])
	}
	c.taken[rank] = f.Answer
	c.oneList(f)
	if !slices.Contains(f.members, id) {
		c.fail("Q4", "%s takes %v, which has %v", id, f.Answer, f.members)
	}
}

// Reached checks C1 whenever a rank comes to a position.
func (c *Checker) Reached(id string, g int, p quorum.Position, bytes uint64) {
	c.hold(id, g, PositionOf(p), bytes)
}

func (c *Checker) hold(id string, g int, p Position, bytes uint64) {
	at := part{p, g}
	if line := c.lineOf(id, g); line != 0 {
		at := stray{line, at}
		if old, ok := c.strays[at]; ok && old != bytes {
			c.fail("C1", "%s is at %v with bytes %x, others of the line %d had %x", id, at.part, bytes, line, old)
		}
		c.strays[at] = bytes
		return
	}
	if old, ok := c.bytes[at]; ok && old != bytes {
		c.fail("C1", "%s is at %v with bytes %x, others had %x", id, at, bytes, old)
	}
	c.bytes[at] = bytes
}

// Promised notes that a rank of a replica promises a step, or has none to promise.
func (c *Checker) Promised(id string, s StepName, rank int) {
	c.promised[promise{id, s.op()}] |= 1 << rank
}

// HoldsPromise notes that a rank has promised an attempt, and waits to be told what became of
// it; or that it does not any more.
func (c *Checker) HoldsPromise(id string, g int, s StepName, holds bool) {
	k := promise{id, s.op()}
	if holds {
		c.vowed[k] |= 1 << g
	} else {
		delete(c.vowed, k)
	}
}

// HeardRefusal notes that a rank heard of an attempt that no ballots can commit it: one
// that came was not ok, or spoke of other bytes than its own. Its replica is free to
// discard the step, C5's second exception, whoever else rolls it forward.
func (c *Checker) HeardRefusal(id string, s StepName) { c.heard[promise{id, s.op()}] = true }

// Tallied checks C3: the tally's word on an attempt is one.
func (c *Checker) Tallied(id string, attempt uint64, outcome string) {
	k := polled{id, attempt}
	if old, ok := c.tallies[k]; ok && old != outcome {
		c.fail("C3", "the tally of %s said %s on attempt %d, now %s", id, old, attempt, outcome)
	}
	c.tallies[k] = outcome
}

// Committed checks C2, C1, and C5 against those who have discarded. members are all
// whose ballots were counted: the replica alone when it was told the outcome.
func (c *Checker) Committed(id string, g int, s StepName, ranks int, members []string, bytes uint64) {
	if g == 0 {
		c.totals.Commits++
	}
	p, at := Position{s.Step, s.QuorumID}, branch{s.op(), g}
	if m := c.unpromised(members, s, ranks); m != "" {
		c.fail("C2", "%s commits %v, which not all ranks of %s have promised", id, s, m)
	}
	if old, ok := c.dropped[at]; ok && old == bytes && !c.excused[p] {
		c.fail("C5", "rank %d of %s commits %v, which one that was prepared has discarded", g, id, s)
	}
	c.done[p] = true
	c.kept[at] = bytes
	c.hold(id, g, p, bytes)
}

// unpromised is one of the members with a rank that never promised a step; "": none.
func (c *Checker) unpromised(members []string, s StepName, ranks int) string {
	for _, m := range members {
		if c.promised[promise{m, s.op()}] != 1<<ranks-1 {
			return m
		}
	}
	return ""
}

// Discarded checks C5 when a rank drops what its replica has promised, with all ranks.
func (c *Checker) Discarded(id string, g, ranks int, s StepName, bytes uint64) {
	if p := (promise{id, s.op()}); c.vowed[p] != 1<<ranks-1 || c.heard[p] {
		return
	}
	at := branch{s.op(), g}
	if held, ok := c.kept[at]; ok && held == bytes && !c.excused[Position{s.Step, s.QuorumID}] {
		c.fail("C5", "rank %d of %s discards %v, which somebody committed", g, id, s)
	}
	c.dropped[at] = bytes
}

// SharedOut checks that a step's data were shared out as it was averaged.
func (c *Checker) SharedOut(id string, told *quorum.Shares, is quorum.Shares, s StepName) {
	if told != nil && *told != is {
		c.fail("shares", "%s commits %v as %+v, and its data were shared out as %+v", id, s, is, *told)
	}
}

// WaitedForVote checks C7 between a replica's ranks: one waited for a vote until its
// deadline, though its sibling had ended the attempt for a while.
func (c *Checker) WaitedForVote(id string, attempt, sibling uint64, ended int64) {
	if now := c.clock(); ended > 0 && now-ended > patience/2 {
		c.fail("C7", "%s waited for a vote on attempt %d, which its other rank had left %v ago, for %d", id, attempt,
			time.Duration(now-ended), sibling)
	}
}

// CalledOdd is told of a rank which says that another one calls something else, though
// all call the same.
func (c *Checker) CalledOdd(by, of string, s StepName) {
	c.fail("odd", "%s says that %s calls something else in %v", by, of, s)
}

// patience is how long a message could take at most, through a slow member.
const patience = int64(time.Second)

// MissedDeadline checks C7: a replica waited for a timeout though the leader to which it
// is connected had known for a while that its quorum is over.
func (c *Checker) MissedDeadline(b *Book, id string, quorumID, undisturbed int64, what string) {
	now := c.clock()
	if b.fell && b.last != nil && b.last.ID == quorumID && now-b.fellAt > patience && now-undisturbed > patience {
		c.fail("C7", "%s waited for its deadline (%s) in quorum %d, which fell %v ago", id, what, quorumID, time.Duration(now-b.fellAt))
	}
}
