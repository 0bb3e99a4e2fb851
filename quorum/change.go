package quorum

import (
	"fmt"
	"slices"
	"time"
)

// Change is what a quorum changed as it was formed, and what that cost, for people. Its lists name
// at most MaxHistoryNames each. Of a, b, c and d, where d is killed in the middle of step 661:
//
//	d's stream breaks            the first sign
//	a, b and c accuse it         known: the quorum falls, 4 ms after the first sign
//	{a, b, c} is formed          reformed: 11 ms after it
//	a commits step 661           resumed: 153 ms after it (EventResumed)
type Change struct {
	Before  int         `json:",omitempty"` // how many members the quorum before had; 0: there was none
	Members int         // how many it has
	Joined  []ReplicaID `json:",omitempty"` // who were not in the one before
	Gone    []Cause     `json:",omitempty"` // why each who was is not in this one
	Cause   Cause       // what ended the quorum before; of no kind: its members asked for this one
	Settled Settlement  // of the step that was cut short
	Redone  bool        `json:",omitempty"` // a member makes an attempt anew, at it or at the one after it
	Step    int64       `json:",omitempty"` // at which step

	// From the first sign of the fault, or from the first member's ask, by the leader's clock.
	Known    time.Duration `json:",omitempty"` // until the quorum before fell
	Reformed time.Duration // until this one was formed
	Resumed  time.Duration `json:",omitempty"` // until a member was heard to have committed in it
	Lost     time.Duration `json:",omitempty"` // in which no step was made that counts
}

// sign notes the first sign of the quorum's end, or of an ask for another: none is before it began.
func (m *Machine) sign(at time.Time) {
	if at = later(at, m.formed); m.signed.IsZero() || at.Before(m.signed) {
		m.signed = at
	}
}

// unsign forgets it where it came to nothing: a suspicion was cleared, an ask taken back.
func (m *Machine) unsign() {
	if !m.fallen && !slices.ContainsFunc(m.order, func(r *replica) bool { return r.member && (r.suspect || r.join != nil) }) {
		m.signed = time.Time{}
	}
}

// changeTo is what quorum q changes, which is formed now. It is asked before q is the last.
func (m *Machine) changeTo(now time.Time, q *Quorum) *Change {
	c := &Change{Members: len(q.Members), Cause: m.fell, Settled: q.Settlement}
	for _, member := range q.Members {
		if r := m.replicas[member.ReplicaID]; r != nil && r.join != nil && r.redoes(&q.Settlement) {
			c.Redone, c.Step = true, max(c.Step, r.join.Member.Position.Step+1)
		}
	}
	// The first to join may have heard of a broken link from the one that saw it break.
	if link, said := m.linkCause(""); said && c.Cause.Kind == CauseFailed {
		c.Cause = link
	}
	if m.last == nil {
		return c
	}
	ids, old := memberIDs(q.Members), memberIDs(m.last.Members)
	in, out := without(ids, old), without(old, ids)
	c.Before, c.Joined = len(old), in[:min(len(in), MaxHistoryNames)]
	for _, id := range out[:min(len(out), MaxHistoryNames)] {
		if r := m.replicas[id]; r != nil { // each is, but beyond MaxKnown (setLast)
			c.Gone = append(c.Gone, m.causeOf(r))
		}
	}
	if !m.signed.IsZero() {
		c.Reformed = now.Sub(m.signed)
		if c.Redone { // its work until then is done again, which takes a step at most
			c.Lost = min(max(0, m.signed.Sub(m.pace.Reached())), m.pace.Middle())
		}
	}
	if m.fallen { // which is a sign
		c.Known = m.fallenAt.Sub(m.signed)
	}
	return c
}

// redoes says that the attempt which the replica had under way came to nothing. Where a step that
// was cut short counts after all, one that had committed it was at the next by then.
func (r *replica) redoes(s *Settlement) bool {
	ahead := !s.Counts() || r.join.Member.Position.Step >= s.Step
	return r.join.Fall.Void && ahead || s.Outcome == Discard && r.join.Fact.Kind == Prepared
}

// beginChange notes what to tell with the first commit. An outage goes on until there is one.
func (m *Machine) beginChange(c *Change, signed time.Time) {
	if m.changed == nil || m.began.IsZero() {
		m.began = signed
	}
	m.changed = c
}

// tellFinished tells once that no replica is here any more, and all members went in good order.
func (m *Machine) tellFinished(now time.Time) {
	if state, _ := m.jobState(now); state == JobFinished && !m.ended {
		m.ended = true
		m.tell(Event{Kind: EventFinished, Step: m.highest.Step, Text: fmt.Sprintf("at step %d", m.highest.Step)})
	}
}

// tellCommit tells of the first commit in the last quorum: that a member which was to heal
// takes part; and, once, how long after the first sign of what ended the quorum before.
func (m *Machine) tellCommit(r *replica) {
	if r.heals {
		r.heals = false
		m.event(EventHealed, r.id, fmt.Sprintf("takes part, %v after the quorum was formed", m.now.Sub(m.formed).Round(time.Millisecond)))
	}
	if m.changed == nil || m.began.IsZero() {
		return
	}
	c := *m.changed
	c.Resumed = m.now.Sub(m.began)
	c.Lost, m.changed = c.Lost+max(0, c.Resumed-m.pace.Middle()), nil
	m.tell(Event{Kind: EventResumed, Change: &c, Text: fmt.Sprintf("%v after the first sign", c.Resumed.Round(time.Millisecond))})
}
