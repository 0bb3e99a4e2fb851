package quorum

import (
	"fmt"
	"slices"
	"time"
)

// Advance lets time pass: a replica that has been silent for too long becomes suspect
// or lost, one that does nothing becomes stuck, and one that is long gone is
// forgotten. Every input does it first, so that an input which comes late is taken as
// late as it is; the shell does it when it wakes. Time that goes back panics.
func (m *Machine) Advance(now time.Time) {
	// The shell took times out of order. Each silence and each wait would be wrong by as much, so
	// it stops here.
	if now.Before(m.now) {
		panic(fmt.Sprintf("quorum: time went back by %v", m.now.Sub(now)))
	}
	m.now = now
	if now.Before(m.due) {
		return // the usual case: nothing can have changed by time alone
	}
	m.judgeAll(now)
	m.announceChange(now)
	m.reschedule()
}

// judgeAll judges all replicas. Whether the lighthouse doubts its sight (§6) comes first,
// for it says what silence means; what becomes of the quorum as a whole comes after the
// single replicas, by one of which it may have ended.
func (m *Machine) judgeAll(now time.Time) {
	m.looked = now
	// L3: who waits is found once, for all: whether a member is stuck is a matter of the others.
	m.waits = m.waiting()
	m.judgeSight(now)
	for _, r := range m.order {
		m.judge(now, r)
	}
	m.tellFinished(now) // once: it looks at all of them
	// One that fell by a single replica above is not judged as a whole (fall, waiting).
	m.judgeOutside(now)
	m.callCopiers(now)
	m.gathered(now)
	// At the end: it takes records out of the list over which the others go.
	m.forget(func(r *replica) bool {
		if !m.forgettable(now, r) {
			return false
		}
		m.event(EventForgotten, r.id, "")
		return true
	})
}

// reschedule finds anew when time alone may next change something. It may name a moment too
// early, at which nothing is found, but never one too late (Wake, C7).
func (m *Machine) reschedule() {
	// Whatever else there is, a look each minute.
	m.due = m.now.Add(ForgetAfter)
	m.waits = m.waiting()
	m.soon(m.outsideAt())
	m.soon(m.callAt())
	m.soon(m.gatherUntil())
	for _, r := range m.order {
		m.rescheduleFor(r)
	}
	m.soon(m.wanted.again)
	// C7: the ends of a link may meet again (Q9), and one that was refused may join (§6a), though
	// no input comes.
	for _, l := range m.links {
		m.soon(l.until)
	}
	for _, f := range m.refusals {
		m.soon(f.until)
	}
	m.rejudgeSight()
}

// rescheduleFor is reschedule for one replica, whose time may have come nearer.
func (m *Machine) rescheduleFor(r *replica) {
	m.soon(m.deadline(r))
}

// soon brings the next look nearer, to a time that lies ahead; a zero one is never.
func (m *Machine) soon(at time.Time) {
	// What is due was found by this look. What it left as it was, such as a silent replica while
	// the lighthouse doubts its sight, has another time of its own (rejudgeSight).
	if !at.After(m.now) {
		return
	}
	if together := m.looked.Add(lookEvery); len(m.order) >= lookTogether && at.Before(together) {
		at = together
	}
	if at.Before(m.due) {
		m.due = at
	}
}

// Where so many replicas are known, all are judged at most once in
// lookEvery: when thousands fall silent, each at a moment of its own, a look at
// all of them for each would be n times n.
const (
	lookTogether = 1024
	lookEvery    = 5 * time.Millisecond
)

// advancedTo is the machine as it is now: itself, or a copy for which time has passed. So
// Decide and Status only read, and a page that is asked for changes no decision.
func (m *Machine) advancedTo(now time.Time) *Machine {
	if now.Before(m.now) {
		panic(fmt.Sprintf("quorum: time went back by %v", m.now.Sub(now)))
	}
	if now.Before(m.due) {
		return m
	}
	// What time alone writes is copied in depth: records, links, flaps and refusals. The ledger's
	// lists and the last quorum are replaced and never written (appendBounded), also by EvictStuck.
	c := *m
	c.notices, c.events = nil, nil
	c.links = slices.Clone(m.links)
	c.flaps = slices.Clone(m.flaps)
	c.refusals = slices.Clone(m.refusals)
	c.replicas = make(map[ReplicaID]*replica, len(m.order))
	c.order = make([]*replica, len(m.order))
	all := make([]replica, len(m.order))
	for i, r := range m.order {
		all[i] = *r
		all[i].accusers = slices.Clone(r.accusers)
		all[i].watches = slices.Clone(r.watches)
		// Time changes it: a held one is let in (supersede).
		if r.join != nil {
			join := *r.join
			all[i].join = &join
		}
		c.order[i] = &all[i]
		c.replicas[r.id] = &all[i]
	}
	// They are records too: those of the copy.
	c.suspects = nil
	for _, r := range m.suspects {
		c.suspects = append(c.suspects, c.replicas[r.id])
	}
	c.Advance(now)
	return &c
}

// Doubt tells that this process was itself descheduled for the duration of
// late (§6, see Turns): what it did not hear meanwhile is held against no replica, and what
// waits for others to come (an open window, a quiet time, a change told again) waits that
// much longer: their joins may lie in the socket. (A lighthouse that was stopped for
// longer than the join timeout formed a quorum without them.) The same where the way to
// the replicas was cut, see beforeHearing.
//
//	of the machine    the quiet before a first window, a gathering of parts, the open window, a
//	                  change that is to be told again, the step under way, the quorum's age
//	of a replica      its silence, its grace and what prolonged it, its idleness, since when it
//	                  waits, its join's wait, and that for its predecessor
//
// Each moves on by late; one that is past does not pass now. What is over stays so: a replica
// that was lost is not brought back by it.
func (m *Machine) Doubt(now time.Time, late time.Duration) {
	// A process that was not descheduled doubts nothing.
	if late <= 0 {
		return
	}
	// Hellos may lie in the socket: the quiet before a first quorum has not passed.
	m.opened = earlier(now, m.opened.Add(late))
	// So may the parts of a quorum that is being restored (§4.3).
	if m.gather != nil {
		g := m.gather
		g.since, g.newest = earlier(now, g.since.Add(late)), earlier(now, g.newest.Add(late))
	}
	// And joins: the window of a quorum that fell stays open for as long.
	if m.fallen {
		m.fallenAt = earlier(now, m.fallenAt.Add(late))
	}
	// And asks, for which the members were to be told again.
	if !m.wanted.again.IsZero() {
		m.wanted.again = m.wanted.again.Add(late)
	}
	// L3: a step that went on meanwhile was not longer by that; nor did its members hang.
	m.pace.Doubt(now, late)
	m.formed = earlier(now, m.formed.Add(late))
	for _, r := range m.order {
		r.doubt(now, late)
	}
	m.reschedule()
}

// doubt takes out what was not heard of one replica: each time from which something is
// counted against it moves on by as long.
func (r *replica) doubt(now time.Time, late time.Duration) {
	// Never beyond now: a time that lies ahead would put off what counts from it.
	r.seen = earlier(now, r.seen.Add(late))
	// Its beats may lie in the socket, and say that it moves.
	r.progressAt = earlier(now, r.progressAt.Add(late))
	// L3: since when it has waited is counted against those for whom it waits.
	if !r.waitsAt.IsZero() {
		r.waitsAt = earlier(now, r.waitsAt.Add(late))
	}
	// Grace counts from here: the answer to the probe may lie there too.
	if r.suspect {
		r.since = earlier(now, r.since.Add(late))
	}
	// The grace that its peers' progress gave it: their beats were not heard either.
	if !r.extended.IsZero() {
		r.extended = earlier(now, r.extended.Add(late))
	}
	if r.join == nil {
		return
	}
	// §4.4: the join timeout of a first window, and of torchft's, counts from here.
	r.join.at = earlier(now, r.join.at.Add(late))
	if !r.join.until.IsZero() {
		r.join.until = r.join.until.Add(late) // its predecessor may have spoken
	}
}

// doubled is first, twice as long for each time before, up to most, which is no
// less than first.
func doubled(first, most time.Duration, times int) time.Duration {
	// It ends at most, so no number of times makes it overflow.
	for ; times > 0 && first < most; times-- {
		first = min(2*first, most)
	}
	return first
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
