package quorum

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// This file is how a replica goes by a word, not by a failure, and how the others learn that
// they are to ask for another quorum.
//
//	Leave    its own word: it is gone. A member's quorum falls (Q7)
//	Drain    an operator's: it finishes its step. The quorum stands until the members have
//	         asked for the next one, which is without it, unless it alone holds the state
//	Undrain  takes that back, until the next quorum is there
//	Evict    an operator's, or EvictStuck's: out at once, and refused. A member's quorum falls
//
// A drain of c, one of a, b and c (transcript 09_drain):
//
//	Drain                     c is told to drain, all that a change is wanted
//	a, b and c commit, ask    the quorum {a, b} is formed; c is answered with it, and serves on
//	{a, b} is configured      c says goodbye; what it says after that is refused (ErrDrained)
//	c alone is level          it stays in the quorum until another one is, and gives its state

// Leave notes the orderly end of a session (§8, Leaving): drained and done. A member that
// leaves ends the quorum, as a lost one does. What follows on the same stream
// is refused: a beat that was under way beside the goodbye would make a replica
// that is gone live again, until its silence is noticed. Why is for people, and may
// be empty.
func (m *Machine) Leave(now time.Time, id ReplicaID, why string) {
	m.Advance(now)
	defer m.reschedule()
	r := m.replicas[id]
	// One that is lost has had its end told, and is not told again.
	if r == nil || r.lost {
		return
	}
	defer m.tellFinished(now)
	gone := Cause{Kind: CauseLeft, Replica: id, Evidence: strings.TrimSuffix("left: "+why, ": "), Reason: why}
	if r.draining {
		gone.Kind, gone.Reason = CauseDrained, cmp.Or(r.drainWhy, why)
	}
	m.tell(Event{Kind: EventLeft, ReplicaID: id, Text: why, Cause: gone})
	m.unsuspect(r)
	m.dropJoin(r)
	r.session, r.broken, r.joined, r.left = false, false, false, true
	r.lost, r.lostAt, r.gone = true, now, gone
	m.flapped(now, r) // one that fails in good order again and again costs the others as much
	// §3, Q7: its own word is enough. The others need no second witness, and no grace period.
	if r.member {
		m.memberLost(now, r, gone)
	}
	// §4.1, C7: the name is free from now on.
	for _, newcomer := range m.otherIncarnations(id) {
		m.releaseFrom(now, newcomer)
	}
}

// releaseFrom lets a held newcomer in when its last predecessor has gone.
func (m *Machine) releaseFrom(now time.Time, newcomer *replica) {
	// Of a name that was started three times the third waits for both before it.
	if newcomer.join != nil && newcomer.join.held && len(m.predecessors(newcomer)) == 0 {
		m.supersede(now, newcomer)
	}
}

// Drain asks a replica to finish its step and go (§5). It stays a member until the
// next quorum, and for as long as it is the only one at the highest position.
// Repeating it is fine. Errors: ErrUnknown, ErrInvalid.
func (m *Machine) Drain(now time.Time, id ReplicaID, reason string) error {
	r, err := m.target(now, id, reason)
	if err != nil {
		return err
	}
	if r.draining {
		return nil
	}
	// In this machine's copy. The shell writes the same to raft; where that fails the machine is
	// made anew, without it (New).
	if err := m.ledger.ApplyDrain(id); err != nil {
		return err
	}
	r.draining, r.drainWhy = true, reason
	m.event(EventDraining, id, reason)
	m.notify(Notice{Kind: NoticeDrain, To: []ReplicaID{id}, Reason: reason})
	// §5: a member goes with the next quorum, which is asked for now. Another one is let into
	// none: its join would wait for ever.
	if r.member {
		m.change = drainOf(id)
	} else {
		m.dropJoin(r)
		r.joined = false
	}
	m.announceChange(now)
	return nil
}

// Undrain takes a drain back, while the quorum still has the replica: it stays, as if it had
// not been told. Errors: ErrUnknown, ErrInvalid, and ErrNoDrain where none is under way, or
// the others went on without it, which is told to no replica twice: so they have when the quorum
// without it is on its way into the ledger, which under is (nil: none).
//
//	c is told to drain, and Undrain before the next quorum    c stays: that quorum has it
//	{a, b} was formed, or is written                          ErrNoDrain: c has its answer, and goes
//	c was no member                                           ErrNoDrain: its join was refused (§5)
//	c goes by its own wish (SIGTERM)                          it says so again, and drains
func (m *Machine) Undrain(now time.Time, id ReplicaID, reason string, under *Quorum) error {
	r, err := m.target(now, id, reason)
	if err != nil {
		return err
	}
	if !r.draining || !r.member || r.lost || under != nil && !slices.Contains(memberIDs(under.Members), id) {
		return fmt.Errorf("%w: replica %q", ErrNoDrain, id)
	}
	if err := m.ledger.ApplyUndrain(id); err != nil {
		return err
	}
	r.draining, r.drainWhy = false, ""
	// §3.2: the members that ask now get the quorum that they are in. Another drain is still
	// a reason to ask.
	if m.change == drainOf(id) {
		m.change = ""
		if i := slices.IndexFunc(m.order, func(r *replica) bool { return r.draining && r.member && !r.lost }); i >= 0 {
			m.change = drainOf(m.order[i].id)
		}
	}
	m.event(EventStays, id, reason)
	m.notify(Notice{Kind: NoticeStay, To: []ReplicaID{id}, Reason: reason})
	if m.wanted.reason == drainOf(id) {
		m.wanted = wanted{} // the next quorum is not put down to it
		m.announceChange(now)
	}
	return nil
}

// drainOf is what a drain is to those who are told that a change is wanted.
func drainOf(id ReplicaID) string { return "drain of " + string(id) }

// Drains says whether a replica was told to drain, and stays told: the ledger has it, or had
// it among the newest. Of one that is not known that cannot be said.
func (m *Machine) Drains(id ReplicaID) (drains, known bool) {
	r := m.replicas[id]
	return r != nil && r.draining, r != nil
}

// IsAnswered says whether a call of a replica that was told to drain is answered by the
// next quorum: that of a member is, for it is told a quorum that it is not in. Of another
// one no quorum will speak: its calls are refused (ErrDrained), or would wait for ever.
func (m *Machine) IsAnswered(id ReplicaID) bool {
	r := m.replicas[id]
	return r != nil && r.member
}

// Alone says that nobody is known who could go on without a replica: all others
// are lost, stuck, draining or evicted. (Who is away comes back: a job whose state the one
// holds alone would begin anew.) One that drains need not wait for those
// who take its place if that stays so. It only reads.
func (m *Machine) Alone(now time.Time, id ReplicaID) bool {
	return !slices.ContainsFunc(m.advancedTo(now).order, func(r *replica) bool { return r.id != id && r.willing() })
}

// Evict puts a replica out at once; it is refused from now on. Repeating it is
// fine. Errors: ErrUnknown, ErrInvalid.
func (m *Machine) Evict(now time.Time, id ReplicaID, reason string) error {
	r, err := m.target(now, id, reason)
	if err != nil {
		return err
	}
	m.evict(now, r, reason)
	m.reschedule()
	return nil
}

func (m *Machine) target(now time.Time, id ReplicaID, reason string) (*replica, error) {
	m.Advance(now)
	if err := validateBytes("reason", reason, MaxEvidenceBytes); err != nil {
		return nil, err
	}
	r := m.replicas[id]
	// An operator who mistypes a name is told so; the name of one that will come is not kept.
	if r == nil {
		return nil, fmt.Errorf("%w: %q", ErrUnknown, id)
	}
	return r, nil
}

func (m *Machine) evict(now time.Time, r *replica, reason string) {
	// The ledger has its id, and the others were told.
	if r.evicted {
		return
	}
	if err := m.ledger.ApplyEvict(r.id); err != nil {
		panic(fmt.Sprintf("quorum: evict %q: %v", r.id, err)) // its id was checked when it came
	}
	// Of one that was lost before the others were told then.
	known := r.lost
	r.evicted = true
	r.lost, r.lostAt, r.gone = true, now, Cause{Kind: CauseEvicted, Replica: r.id, Evidence: "evicted: " + reason, Reason: reason}
	// It is judged no more, and its peers are watched for it no more.
	m.unsuspect(r)
	m.dropJoin(r)
	m.tell(Event{Kind: EventEvicted, ReplicaID: r.id, Text: reason, Cause: r.gone})
	m.notify(Notice{Kind: NoticeEvict, To: []ReplicaID{r.id}, Reason: reason})
	if r.member && !known && m.client != KindTorchft { // torchft's members learn it as they join
		m.memberLost(now, r, r.gone)
	}
	for _, newcomer := range m.otherIncarnations(r.id) {
		m.releaseFrom(now, newcomer)
	}
	m.tellFinished(now)
}

// announceChange tells the members that a change is wanted (§3.2): a joiner waits, a member
// drains, or the rules changed. Not while a member's stream is down, for its fate comes
// first (§4.4: a member that is not told does not ask, and the others would wait for it);
// once per quorum, and again after an ask was withdrawn. Of a and b, which train (transcript
// 04_joiner):
//
//	c joins                      both are told that a change is wanted
//	a asks, and b does not       a second later a takes its ask back, and trains on
//	a second after that          both are told again, for c waits still
//	a and b ask                  {a, b, c}, between two steps
//	c joins, b's stream is down  they are told when that is open again
func (m *Machine) announceChange(now time.Time) {
	// Where the quorum has fallen all its members join anyhow.
	if m.client != KindSkerry || m.last == nil || m.fallen {
		return
	}
	// Told once, they ask once. Again only where the asks came to nothing (Withdraw, Form), after a
	// while, so that a lighthouse which cannot answer does not hold up each step.
	if m.wanted.pushed && (m.wanted.again.IsZero() || now.Before(m.wanted.again)) {
		return
	}
	if m.change == "" && m.pending == 0 {
		return // no drain, no new rules, and no joiner
	}
	for _, member := range m.last.Members {
		if r := m.replicas[member.ReplicaID]; r == nil || r.lost || !r.session {
			return
		}
	}
	reason := m.change
	// Filled in below only if one of those that wait could be let in: else the asks end without it.
	if joiner := m.joiner(now); reason == "" && joiner != nil {
		reason = string(joiner.id) + " joined"
	}
	if reason == "" {
		return
	}
	m.wanted = wanted{pushed: true, reason: reason}
	m.notify(Notice{Kind: NoticeWanted, To: m.others(""), QuorumID: m.last.ID, Reason: reason})
	// A member whose answer was lost with its stream goes on in the older quorum, if it took
	// its ask back: it keeps a word about the newer one until it is in it. (It trained on
	// alone, and the newcomer waited for it for ever.)
	for _, member := range m.last.Members {
		if r := m.replicas[member.ReplicaID]; r.stale && r.join == nil {
			m.notify(Notice{Kind: NoticeWanted, To: []ReplicaID{r.id}, QuorumID: r.ran, Reason: reason})
		}
	}
}

// joiner is a replica that waits and could be in the next quorum. One that could not (on
// probation, refused, cut off from a member, one too many) is no reason to ask: each
// ask would end without it, and the next begin (L1).
func (m *Machine) joiner(now time.Time) *replica {
	// Members keep their places (transcript 42_too_many).
	if len(m.last.Members) >= m.config.maxReplicas() {
		return nil
	}
	for _, r := range m.order {
		if r.member || !r.candidate() || m.onProbation(now, r) || m.refused(now, r) {
			continue
		}
		if m.cutOff(now, r) == nil {
			return r
		}
	}
	return nil
}
