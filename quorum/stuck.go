package quorum

import (
	"fmt"
	"time"
)

// This file keeps rule L3: "waits for others" and "does not move" are different
// facts. A member of a quorum that stands is stuck if it does not wait, has not
// moved for StuckAfter, and another member has waited, and not moved, for as
// long. So a quorum in which all compute is never disturbed, however long a step
// takes, and one that waits for a heal or for a slow member has one that moves.
// (With one counter alone, a heal of more than StuckAfter made all members stuck:
// none counted as live, and the first joiner formed a quorum of its own at step
// 0.) The stuck member ends the quorum by its name: the next one is without it.
//
// Where no quorum stands, a replica is stuck that does not join for StuckAfter
// while somebody waits for it.
//
//	a member, the quorum stands    it does not wait and has not moved for StuckAfter, and
//	                               another member has waited, and not moved, for as long
//	outside, a quorum stands       it is busy with something that has not moved for StuckAfter
//	no quorum stands               it has not joined, and not moved, for StuckAfter
//
// In each case its session is open: of one that is not heard judge decides.

// outsideFactor is how many times StuckAfter a replica outside waits for a quorum
// in which nothing moves, until the quorum falls. It cannot see who hangs, nor
// whether the members are in the middle of a very long step; those that live
// join, and who does not is left out. A replica that copies a state before it joins
// waits, too, while nothing comes. (A member hangs between two steps, where it
// gives its state to nobody: the newcomer would wait for it, and never join.)
const outsideFactor = 10

// waits is who waits for members of the last quorum, as of the last look. The
// zero value is nobody.
type waits struct {
	since time.Time // when the first of the members that still wait began to; zero: none does
	by    ReplicaID // that member
	moved time.Time // when any member moved last
	out   time.Time // since when the first replica outside has waited; zero: there is none
}

// waiting finds who waits. It reads all replicas: once in a look.
func (m *Machine) waiting() waits {
	var w waits
	// Where no quorum stands the others wait for joins, which is another rule (stuckAt).
	if m.last == nil || m.fallen || m.config.StuckAfter == 0 {
		return w
	}
	for _, r := range m.order {
		switch {
		// L3: of members it counts who waits, and when any moved: one that moves is what the
		// others wait for.
		case r.member && !r.lost && !r.evicted:
			w.moved = later(w.moved, r.progressAt)
			w.add(r)
		// L1: by its wish, not by its join, which it may take back and make anew.
		case r.candidate():
			w.outside(r.wants)
		// It waits only while nothing comes.
		case r.copies():
			w.outside(r.progressAt)
		}
	}
	return w
}

// outside takes into account that a replica outside has waited since then.
func (w *waits) outside(since time.Time) {
	if w.out.IsZero() || since.Before(w.out) {
		w.out = since
	}
}

// copies says that a replica copies a state before it joins, or that one of its
// ranks does while others wait for it to join.
func (r *replica) copies() bool {
	busy := r.beat.Phase == PhaseHealing || r.beat.Phase == PhaseJoining
	outside := r.session && !r.member && !r.joined
	return outside && busy && !r.lost && !r.evicted && !r.draining && !r.away
}

// add takes a member into account if it waits.
func (w *waits) add(r *replica) {
	// What one that is not heard said last may be over: it speaks against no other.
	if r.waitsAt.IsZero() || r.lost || !r.session {
		return
	}
	// Since it waits and has not moved: a heal waits, and moves with each part that comes.
	if since := later(r.waitsAt, r.progressAt); w.since.IsZero() || since.Before(w.since) {
		w.since, w.by = since, r.id
	}
}

// outsideAt is when a quorum falls in which nothing moves and for which a replica
// outside waits; zero: never.
func (m *Machine) outsideAt() time.Time {
	// L3: none outside waits, so a quorum in which nothing moves is in no other's way.
	if m.waits.out.IsZero() {
		return time.Time{}
	}
	return later(later(m.waits.moved, m.formed), m.waits.out).Add(outsideFactor * m.stuckAfter())
}

// judgeOutside ends a quorum in which nothing has moved for very long (L1), by no name:
// it is not known who hangs. Those that live join, and who does not is stuck then.
func (m *Machine) judgeOutside(now time.Time) {
	if at := m.outsideAt(); at.IsZero() || now.Before(at) {
		return
	}
	m.fall(now, Cause{Kind: CauseStuck, Evidence: fmt.Sprintf("no member has moved for %v, and a replica waits to join",
		outsideFactor*m.stuckAfter())})
	m.tellMembers()
}

// tellMembers tells those who were in the last quorum that it fell.
func (m *Machine) tellMembers() {
	for _, member := range m.last.Members {
		// Those that run in an older quorum were told by fall.
		if r := m.replicas[member.ReplicaID]; r != nil && !r.lost && r.session && !r.stale {
			m.tellFallen(r)
		}
	}
}

// judgeProgress finds out who is alive and does nothing.
func (m *Machine) judgeProgress(now time.Time, r *replica) {
	if r.stuck || !m.mayBeStuck(r) || now.Before(m.stuckAt(r)) {
		return
	}
	// From here on it is not live: the window and the majority no longer count it (§1).
	r.stuck = true
	r.stuckWhy = fmt.Sprintf("no progress for %v", now.Sub(r.progressAt))
	if r.hung = m.last != nil && !m.fallen && r.member; r.hung {
		r.stuckWhy += fmt.Sprintf(", %s waits for it", m.waits.by)
	}
	m.eventOf(EventStuck, r.id, Cause{Kind: CauseStuck, Replica: r.id, Evidence: r.stuckWhy})
	switch {
	case m.config.EvictStuck && (r.member || r.joined) && r.waitsAt.IsZero():
		// None that waits: it waits for another one that hangs. (EvictStuck put out the
		// healthy together with the one that hung.)
		m.evict(now, r, "stuck")
	case r.member && !m.fallen:
		// It is told too: a trainer that wakes up later would go on in a quorum without others.
		m.memberLost(now, r, Cause{Kind: CauseStuck, Replica: r.id, Evidence: r.stuckWhy})
		m.tellFallen(r)
	}
}

// mayBeStuck: a replica that waits for us is not stuck, nor is one for which none waits:
// where all compute, none is stuck, however long a step takes (L3).
func (m *Machine) mayBeStuck(r *replica) bool {
	switch {
	// One that is not heard may do anything; one whose join waits, waits for this machine.
	case m.config.StuckAfter == 0 || !r.session || r.join != nil || r.evicted:
		return false
	case m.last == nil || m.fallen:
		return true // no quorum stands: the others wait for its join
	case r.member:
		return r.waitsAt.IsZero() && !m.waits.since.IsZero()
	}
	return r.beat.Phase != PhaseIdle // outside, and busy with something that does not move
}

// stuckAt is when a replica that does nothing is stuck: not before somebody has
// waited for it for as long. With StuckAfter 60 s, a and b train, and b hangs at 0 s:
//
//	a waits for b from 5 s on                         65 s
//	a's operation fails at 30 s, and it joins         90 s, for alone it is no majority until then
//	a moves once more at 40 s, and waits on           100 s
func (m *Machine) stuckAt(r *replica) time.Time {
	from := r.progressAt
	switch {
	case m.last == nil:
	// Before the fall none waited for its join.
	case m.fallen:
		from = later(from, m.fallenAt)
	// Nor for a member before one of its quorum waited: a long forward pass is no hang.
	case r.member:
		from = later(later(from, m.formed), m.waits.since)
	}
	return from.Add(m.stuckAfter())
}

// progressed notes that a trainer moved: its counter, not what its manager does
// for it (a join, an answer), which a manager also does for a trainer that hangs.
func (m *Machine) progressed(now time.Time, r *replica) {
	r.progressAt = now
	if r.stuck {
		r.stuck, r.stuckWhy = false, ""
		m.event(EventCleared, r.id, "progresses again")
		m.announceChange(now)
	}
}

// noteBeat takes from a beat whether its replica moves, or waits. One that is away
// does not move, whatever its other ranks do. (They try again and again; a replica
// with one rank that hangs would never be stuck, and others wait for its state.)
func (m *Machine) noteBeat(now time.Time, r *replica, b Beat) {
	same := b.QuorumID == r.beat.QuorumID
	// Any other number: a counter that begins anew moves too. Ballots are counted in one quorum.
	if moves := b.Progress != r.beat.Progress || same && b.Ballots > r.beat.Ballots; moves && !b.Away {
		m.progressed(now, r)
	}
	switch {
	case !b.Waits:
		r.waitsAt = time.Time{}
	// From the first beat of a row that says so, by this machine's clock.
	case r.waitsAt.IsZero():
		r.waitsAt = now
	}
	r.beat = b
	m.notesAway(now, r, b.Away)
	if r.member && !m.fallen && b.Waits && m.waits.since.IsZero() && m.config.StuckAfter > 0 {
		// Members that do not wait may be stuck from now on; the next look finds
		// which. Before then none can have been waited for long enough.
		m.waits.add(r)
		m.soon(now.Add(m.stuckAfter()))
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// stuckSteps is how many median steps without progress are stuck, if they are longer than
// Config.StuckAfter: an evaluation or a checkpoint between two steps may take as long as several.
const stuckSteps = 10

// stuckAfter is how long a live replica may make no progress; 0: for ever.
func (m *Machine) stuckAfter() time.Duration {
	if m.config.StuckAfter == 0 {
		return 0
	}
	// It only grows by this: a fast job may compute for StuckAfter all the same.
	return max(m.config.StuckAfter, stuckSteps*m.pace.Middle())
}
