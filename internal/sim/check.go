package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// The checkers watch from outside. They have types and books of their own, are
// told what was sent, heard and held, and never ask the code under test whether
// it is right: checker knows what is true of the whole world, a [book] what one
// leader has been told.

// answer numbers what the lighthouse says.
type answer struct{ id, round int64 }

func (a answer) less(b answer) bool { return a.id < b.id || a.id == b.id && a.round < b.round }

// pos is a position; all of a world's have one cluster.
type pos struct{ step, q int64 }

func (p pos) above(o pos) bool { return p.step > o.step || p.step == o.step && p.q > o.q }

// verdict is what became of a contested step.
type verdict struct {
	pos
	forward bool
	digests string
}

// formedView is a quorum as the checkers keep it.
type formedView struct {
	answer
	members []string
	at      []pos // where the members stand, by rank
	settled []verdict
}

func (f *formedView) top() pos {
	var top pos
	for _, p := range f.at {
		if p.above(top) {
			top = p
		}
	}
	return top
}

// release is a quorum that is told to those whose joins it answers.
type release struct {
	decided int64 // when the leader decided
	at      int64
	floor   answer // the newest that the ledger held then
	changed bool
	server  int
	answer  formedView
	answers []answered
}

// answered is a join that a release answers.
type answered struct {
	id     string
	number uint64
}

// stepName is one attempt at a step; try counts those before it in one quorum and
// round, which stood on when the step was discarded.
type stepName struct{ q, round, step, try int64 }

// promise is one replica's part in one.
type promise struct {
	id string
	stepName
}

// part is a group rank's part of the state at a position.
type part struct {
	pos
	g int
}

// stray is one of a line that began with a flipped bit.
type stray struct {
	line int
	part
}

// branch is what one group rank makes of an attempt.
type branch struct {
	stepName
	g int
}

// polled is one replica's attempt.
type polled struct {
	id      string
	attempt uint64
}

// checker knows the whole world.
type checker struct {
	fail  func(rule, format string, args ...any)
	clock func() int64         // the world's time
	alive func(id string) bool // whether the replica's process is up, whatever the leader believes; nil: it is not

	wrote    []formedView // by index in the log
	newest   answer
	lists    map[int64][]string
	settled  map[pos]verdict
	bytes    map[part]uint64
	strays   map[stray]uint64           // the same, of lines that began with a flipped bit
	born     map[int]int64              // after which step each line began, or was last seen uncompared
	line     func(id string, g int) int // whose bytes a rank holds; nil: all the same
	dropped  map[branch]uint64          // attempts that a prepared rank discarded, and what they would have come to
	kept     map[branch]uint64          // and those that anyone committed
	done     map[pos]bool               // steps that anyone committed
	excused  map[pos]bool               // discarded with nobody in sight who knew of them
	promised map[promise]uint64
	vowed    map[promise]uint64 // by ranks that have neither given up nor were behind
	tallies  map[polled]string
	taken    map[string]answer
	history  []Observation // only if keep
	keep     bool

	commits, forwarded, discarded int
}

// lives says that a replica's process is up.
func (c *checker) lives(id string) bool { return c.alive != nil && c.alive(id) }

func newChecker(clock func() int64, fail func(rule, format string, args ...any)) *checker {
	return &checker{
		fail: fail, clock: clock, lists: map[int64][]string{}, settled: map[pos]verdict{}, bytes: map[part]uint64{},
		dropped: map[branch]uint64{}, kept: map[branch]uint64{}, done: map[pos]bool{}, excused: map[pos]bool{},
		strays: map[stray]uint64{}, born: map[int]int64{},
		promised: map[promise]uint64{}, vowed: map[promise]uint64{}, tallies: map[polled]string{}, taken: map[string]answer{},
	}
}

func (c *checker) observe(o Observation) {
	if c.keep {
		c.history = append(c.history, o)
	}
}

// gone notes that a leader no longer counts a replica as live.
func (c *checker) gone(id string) {
	c.observe(Observation{Began: c.clock(), Ended: c.clock(), Gone: id})
}

// floor is the newest quorum in the ledger: nothing that is decided from now on
// may be older.
func (c *checker) floor() answer { return c.newest }

// written notes that a command took effect, at its place in the log; each server
// says it once. It checks Q1, Q2 and C6 on the ledger, whoever wrote it.
func (c *checker) written(index int, f formedView) {
	for len(c.wrote) <= index {
		c.wrote = append(c.wrote, formedView{})
	}
	if old := &c.wrote[index]; old.id != 0 {
		if old.answer != f.answer || !slices.Equal(old.members, f.members) {
			c.fail("Q2", "two servers hold different quorums at %d: %v and %v", index, *old, f)
		}
		return
	}
	c.wrote[index] = f
	o := observed(f)
	o.Began, o.Ended = c.clock(), c.clock()
	c.observe(o)
	if !c.newest.less(f.answer) {
		c.fail("Q1", "%v was written after %v", f.answer, c.newest)
	}
	if c.newest.less(f.answer) {
		c.newest = f.answer
	}
	c.oneList(f)
	for _, v := range f.settled {
		c.settle(v)
	}
}

// oneList checks Q2.
func (c *checker) oneList(f formedView) {
	if old, ok := c.lists[f.id]; ok && !slices.Equal(old, f.members) {
		c.fail("Q2", "id %d had %v, now %v", f.id, old, f.members)
	}
	c.lists[f.id] = f.members
}

// settle checks C6.
func (c *checker) settle(v verdict) {
	old, ok := c.settled[v.pos]
	if ok && (old.forward != v.forward || old.digests != v.digests) {
		c.fail("C6", "step %v was settled as %+v, now as %+v", v.pos, old, v)
	}
	if ok {
		return
	}
	c.settled[v.pos] = v
	if v.forward {
		c.forwarded++
	} else {
		c.discarded++
	}
}

// released checks what a leader tells.
func (c *checker) released(b *book, now time.Duration, r release) {
	f := r.answer
	o := observed(f)
	o.Began, o.Ended, o.Server = r.decided, r.at, r.server
	c.observe(o)
	switch {
	case r.changed && !r.floor.less(f.answer):
		c.fail("Q1", "%v was decided when the ledger held %v", f.answer, r.floor)
	case !r.changed && f.answer.less(r.floor):
		c.fail("Q1", "%v is told again, and the ledger held %v when that was decided", f.answer, r.floor)
	}
	c.oneList(f)
	for _, v := range f.settled {
		c.settle(v)
	}
	b.formed(now, r)
}

// take notes that a rank of a replica takes an answer: Q1 and Q2 as they see them.
func (c *checker) take(rank, id string, f formedView) {
	if f.answer.less(c.taken[rank]) {
		c.fail("Q1", "%s takes %v after %v", rank, f.answer, c.taken[rank])
	}
	c.taken[rank] = f.answer
	c.oneList(f)
	if !slices.Contains(f.members, id) {
		c.fail("Q4", "%s takes %v, which has %v", id, f.answer, f.members)
	}
}

// hold checks C1 whenever a rank comes to a position.
func (c *checker) hold(id string, g int, p pos, bytes uint64) {
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

// ballots notes that a rank of a replica promises a step, or has none to promise.
func (c *checker) ballots(id string, s stepName, rank int) {
	c.promised[promise{id, s.op()}] |= 1 << rank
}

// vow notes that a rank has promised an attempt, and waits to be told what became of
// it; or that it does not any more.
func (c *checker) vow(id string, g int, s stepName, holds bool) {
	k := promise{id, s.op()}
	if holds {
		c.vowed[k] |= 1 << g
	} else {
		delete(c.vowed, k)
	}
}

// tally checks C3: the tally's word on an attempt is one.
func (c *checker) tally(id string, attempt uint64, outcome string) {
	k := polled{id, attempt}
	if old, ok := c.tallies[k]; ok && old != outcome {
		c.fail("C3", "the tally of %s said %s on attempt %d, now %s", id, old, attempt, outcome)
	}
	c.tallies[k] = outcome
}

// commit checks C2, C1, and C5 against those who have discarded. members are all
// whose ballots were counted: the replica alone when it was told the outcome.
func (c *checker) commit(id string, g int, s stepName, ranks int, members []string, bytes uint64) {
	if g == 0 {
		c.commits++
	}
	p, at := pos{s.step, s.q}, branch{s.op(), g}
	if m := c.unpromised(members, s, ranks); m != "" {
		c.fail("C2", "%s commits %v, which not all ranks of %s have promised", id, s, m)
	}
	if old, ok := c.dropped[at]; ok && old == bytes && !c.excused[p] && c.unpromised(c.lists[s.q], s, ranks) == "" {
		c.fail("C5", "rank %d of %s commits %v, which one that was prepared has discarded", g, id, s)
	}
	c.done[p] = true
	c.kept[at] = bytes
	c.hold(id, g, p, bytes)
}

// unpromised is one of the members with a rank that never promised a step; "": none.
// Then no ballots can commit it, and who heard of that is free to discard it: C5's
// second exception.
func (c *checker) unpromised(members []string, s stepName, ranks int) string {
	for _, m := range members {
		if c.promised[promise{m, s.op()}] != 1<<ranks-1 {
			return m
		}
	}
	return ""
}

// discard checks C5 when a rank drops what its replica has promised, with all ranks.
func (c *checker) discard(id string, g, ranks int, s stepName, bytes uint64) {
	if c.vowed[promise{id, s.op()}] != 1<<ranks-1 {
		return
	}
	at := branch{s.op(), g}
	if held, ok := c.kept[at]; ok && held == bytes && !c.excused[pos{s.step, s.q}] {
		c.fail("C5", "rank %d of %s discards %v, which somebody committed", g, id, s)
	}
	c.dropped[at] = bytes
}

// shares checks that a step's data were shared out as it was averaged.
func (c *checker) shares(id string, told *quorum.Shares, is quorum.Shares, s stepName) {
	if told != nil && *told != is {
		c.fail("shares", "%s commits %v as %+v, and its data were shared out as %+v", id, s, is, *told)
	}
}

// voteless checks C7 between a replica's ranks: one waited for a vote until its
// deadline, though its sibling had ended the attempt for a while.
func (c *checker) voteless(id string, attempt, sibling uint64, ended int64) {
	if now := c.clock(); ended > 0 && now-ended > patience/2 {
		c.fail("C7", "%s waited for a vote on attempt %d, which its other rank had left %v ago, for %d", id, attempt,
			time.Duration(now-ended), sibling)
	}
}

// innocent is told of a rank which says that another one calls something else, though
// all call the same.
func (c *checker) innocent(by, of string, s stepName) {
	c.fail("odd", "%s says that %s calls something else in %v", by, of, s)
}

// viewOf is what a ledger says of the last quorum, for a book.
func (w *world) viewOf(l quorum.Ledger) ledgerView {
	v := ledgerView{}
	if l.Last != nil {
		f := w.record(quorum.Formed{Quorum: *l.Last})
		v.last = &f
	}
	for _, id := range l.Evicted {
		v.evicted = append(v.evicted, string(id))
	}
	for _, id := range l.Drained {
		v.drained = append(v.drained, string(id))
	}
	return v
}

// record turns a command into what the checkers keep.
func (w *world) record(f quorum.Formed) formedView {
	q := &f.Quorum
	v := formedView{answer: answer{q.ID, q.Round}, members: names(q), at: make([]pos, len(q.Members))}
	for i, m := range q.Members {
		v.at[i] = place(m.Position)
	}
	for _, s := range append(f.Settled[:len(f.Settled):len(f.Settled)], q.Settlement) {
		if s.Outcome != quorum.NothingToSettle {
			v.settled = append(v.settled, verdict{pos{s.Step, s.QuorumID}, s.Outcome == quorum.Forward, fmt.Sprint(s.Digests)})
		}
	}
	return v
}

func place(p quorum.Position) pos { return pos{p.Step, p.QuorumID} }

func names(q *quorum.Quorum) []string {
	out := make([]string, len(q.Members))
	for i, m := range q.Members {
		out[i] = string(m.ReplicaID)
	}
	return out
}

// patience is how long a message could take at most, through a slow member.
const patience = int64(time.Second)

// waited checks C7: a replica waited for a timeout though the leader to which it
// is connected had known for a while that its quorum is over.
func (c *checker) waited(b *book, id string, quorumID, undisturbed int64, what string) {
	now := c.clock()
	if b.fell && b.last != nil && b.last.id == quorumID && now-b.fellAt > patience && now-undisturbed > patience {
		c.fail("C7", "%s waited for its deadline (%s) in quorum %d, which fell %v ago", id, what, quorumID, time.Duration(now-b.fellAt))
	}
}
