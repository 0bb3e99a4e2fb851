package quorum

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// This file keeps PROTOCOL §6: who is suspect, and when that becomes lost.
//
// There are two independent kinds of witness. The lighthouse's own sight is
// one: a stream that broke, or beats that are missed; beats travel on the
// stream, so the two are one witness. A peer whose link broke first is the
// other; several peers behind one switch are still one kind, and an accused
// replica that beats has its own manager to speak for it. Both kinds together:
// lost at once. One alone: suspect, probed, and lost after the grace period
// unless it speaks, or the peers' progress speaks for it.

// Heartbeat says that a replica of torchft's is alive. Replicas that merely beat
// count for the majority, as torchft has it.
func (m *Machine) Heartbeat(now time.Time, id ReplicaID) error {
	m.Advance(now)
	if err := validateID("replica id", id); err != nil {
		return err
	}
	if !m.accepts(KindTorchft) {
		return fmt.Errorf("%w: a heartbeat of torchft's kind from %q", ErrKind, id)
	}
	// A beat fixes no kind: before the first join both kinds may beat, and one of them is forgotten
	// with it (fixKind).
	r, err := m.ensure(now, id)
	if err != nil {
		return err
	}
	// An eviction is for good; a beat would make it live again.
	if r.evicted {
		return fmt.Errorf("%w: %q%s", ErrEvicted, id, strings.TrimSuffix(": "+r.gone.Reason, ": "))
	}
	m.alive(now, r)
	m.rescheduleFor(r)
	return nil
}

// Beat says that a replica is alive, and how far it is.
func (m *Machine) Beat(now time.Time, id ReplicaID, b Beat) error {
	m.Advance(now)
	// §4.7: before the id lifts HighestID below.
	if err := cmp.Or(validatePosition("beat's position", b.Position), validateNumber("beat's quorum id", b.QuorumID),
		m.checkIssued(now, "beat", b.Position.QuorumID, b.QuorumID)); err != nil {
		return err
	}
	r := m.replicas[id]
	switch {
	// §1: a job holds one kind of client.
	case !m.accepts(KindSkerry):
		return fmt.Errorf("%w: a beat of our own kind from %q", ErrKind, id)
	// A new leader presumes the members there, so they may beat before it knows their sessions.
	// What follows a goodbye was under way beside it (TestNothingFollowsAGoodbye).
	case r == nil || r.left || !r.session && (!r.member || r.broken):
		return fmt.Errorf("%w: %q", ErrNoSession, id)
	case r.evicted:
		return fmt.Errorf("%w: %q%s", ErrEvicted, id, strings.TrimSuffix(": "+r.gone.Reason, ": "))
	// §4.1: its beats would bring back a process whose place another one has taken.
	case r.replaced != "":
		return fmt.Errorf("%w: %q took the place of %q", ErrNameInUse, r.replaced, id)
	}
	back := m.alive(now, r)
	m.noteBeat(now, r, b)
	// L3: how long a step takes says how long one that does not move is not stuck.
	m.pace.Step(now, b.Position.Step)
	m.notePosition(r, b.Position)
	// A member that runs in an older quorum has its answer on the way.
	news := m.noteRunning(r, b.QuorumID) && (m.fallen || !r.member)
	// Q1: after a lost ledger a beat may be the first word about its quorum.
	m.ledger.HighestID = max(m.ledger.HighestID, b.QuorumID)
	if back || news {
		m.tellFallen(r)
		m.announceChange(now) // its join may wait still
	}
	m.witness(now, r) // its ballots may speak for a suspect
	m.rescheduleFor(r)
	return nil
}

// Broken says that a replica's stream broke: one witness. withServer says that
// the server which held the stream is gone too: no witness at all, and its
// silence counts from now. The shell calls it for the newest stream only.
func (m *Machine) Broken(now time.Time, id ReplicaID, why string, withServer bool) {
	m.Advance(now)
	r := m.replicas[id]
	// It broke before, or the replica said goodbye: there was nothing left to break.
	if r == nil || !r.session {
		return
	}
	defer m.reschedule()
	r.session = false
	m.event(EventBroken, id, why)
	// §6: a relay that dies is no witness against the replicas whose streams it held.
	// (Otherwise the death of one server would put out a part of every job.)
	if withServer {
		r.seen = now
		return
	}
	r.broken = true
	if !r.member {
		// Its session is over, so it is not live any more, and no peer can bear
		// witness. It joins again if it comes back.
		m.dropJoin(r)
		r.joined = false
	}
	m.judge(now, r)
	// §4.1: it can speak no more, so a newcomer of its name takes its place at once (C7).
	for _, newcomer := range m.otherIncarnations(id) {
		m.release(now, newcomer)
	}
}

// Accuse takes a peer's word that its link to a member broke first. One about an
// older quorum is old news and is dropped.
//
//	a link broke, or could not be made    a witness against the accused, once for each accuser;
//	                                      and it counts against the link (Q9)
//	of one that is lost already           it counts against the link alone
//	odd, not healed, differs              no witness of a death (§6a): see complain
//	by or of one that is no member        ErrInvalid
func (m *Machine) Accuse(now time.Time, a Accusation) error {
	m.Advance(now)
	a.Against = m.resolveName(a.Against)
	if err := validateAccusation(a); err != nil {
		return err
	}
	// The links of an older quorum are gone with it: each break of them would count against
	// members whose new links are well.
	if m.last == nil || a.QuorumID != m.last.ID {
		return nil
	}
	// One that is no member has no link there that could break.
	by, against := m.replicas[a.By], m.replicas[a.Against]
	if by == nil || against == nil || !by.member || !against.member {
		return invalidf("%q accuses %q, want two members of quorum %d", a.By, a.Against, m.last.ID)
	}
	if a.Kind != AccusedLink {
		// §6a: it misbehaves, and lives. No witness of a death.
		m.complain(now, a)
		return nil
	}
	// One word of one peer counts once, in the history and for Q9 too: joins and hellos
	// carry it again.
	if slices.Contains(against.accusers, a.By) || m.accusedBefore(a) {
		return nil
	}
	m.event(EventAccused, a.Against, fmt.Sprintf("by %s: %s", a.By, a.Evidence))
	// For the history; what follows from it is not bounded by that.
	if len(m.accused) < MaxHistory {
		m.accused = append(m.accused, a)
	}
	m.strike(now, a) // also of a lost one: it may be back before the link is (Q9)
	// What is more is told of it already; only the link was news.
	if against.lost {
		return nil
	}
	against.accusers = insertID(against.accusers, a.By)
	before := against.suspect
	m.judge(now, against)
	// §6: progress must be later than the suspicion, and so than its newest reason.
	if before && against.suspect {
		m.sendProbe(against) // the former probe may have been answered before this
	}
	m.reschedule()
	return nil
}

func (m *Machine) accusedBefore(a Accusation) bool {
	return slices.ContainsFunc(m.accused, func(b Accusation) bool {
		return a.By == b.By && a.Against == b.Against && a.Kind == b.Kind
	})
}

// Reply answers a probe: it clears what the probe was sent for, or, from a peer,
// begins the count of its ballots.
func (m *Machine) Reply(now time.Time, id ReplicaID, probe uint64) {
	m.Advance(now)
	r := m.replicas[id]
	// A reply has no error to come back with. From one that is out it is no sign of life.
	if r == nil || r.replaced != "" || r.evicted || !r.session {
		return
	}
	if m.alive(now, r) { // transcript 50_back_by_a_reply
		m.tellFallen(r)
		m.announceChange(now)
	}
	// §6: its own manager's word, given after the suspicion. An answer to an earlier probe was
	// given before the newest reason (transcript 30_witnesses).
	if r.suspect && r.probe == probe {
		m.clear(r, "answered a probe")
	}
	// From a peer: what it ballots from now on was begun after the suspicion, see witness.
	for _, s := range m.suspects {
		for i := range s.watches {
			if w := &s.watches[i]; s.probe == probe && w.peer == id {
				w.replied = true
			}
		}
	}
}

// alive notes a sign of life; it says whether the replica was taken for dead.
func (m *Machine) alive(now time.Time, r *replica) (back bool) {
	m.beforeHearing(now, r)
	r.seen, r.replaced, back = now, "", r.lost
	if back {
		r.lost, r.gone = false, Cause{}
		// What it did meanwhile is unknown. (One that was cut off for longer than StuckAfter would be stuck
		// in the moment in which it comes back, and then wait for an answer that a stuck one never gets.)
		r.progressAt = now
		m.event(EventReturned, r.id, "")
		m.rejudgeSight() // one more is known
	}
	// Beats clear the lighthouse's own sight alone. A peer that accuses is the other witness, and a replica that
	// none of its peers reaches beats on: only an answer to a probe, or the peers' progress, speaks against it (§6).
	if r.suspect && !r.broken && len(r.accusers) == 0 {
		m.clear(r, "was heard")
	}
	m.refuseNewcomers(now, r)
	return back
}

// noteRunning notes which quorum a replica says it is in; true: that is news, and it is
// an older one than the last. The replica does not run in the quorum that it is told
// about then: it refused the answer, or never had it (§3.1).
func (m *Machine) noteRunning(r *replica, id int64) bool {
	// It is in none, or does not say.
	if id == 0 {
		return false
	}
	before, ran := r.stale, r.ran
	// Messages of several streams may come in any order: what it was in last is the highest.
	r.ran = max(r.ran, id)
	r.stale = r.ran < m.lastID()
	return r.stale && (!before || r.ran > ran)
}

// tellFallen tells a replica that comes back, or is heard again, that the quorum
// it ran in is no more (§3.1; C7): no member may be left that breaks their links. It went
// on alone, or waits in an op until its deadline.
//
//	its join waits                      nothing: an answer comes
//	a member, the last quorum fell      of that, and of the older quorum in which it says it runs
//	a member, the last quorum stands    nothing: its quorum goes on
//	no member, and it ran in one        of that one: another followed without it
func (m *Machine) tellFallen(r *replica) {
	// One whose join waits gets an answer, which says more. One that names a later quorum than
	// this machine knows of has not fallen behind.
	if m.client != KindSkerry || m.last == nil || r.join != nil || r.ran > m.last.ID {
		return
	}
	tell := func(id int64, reason string) {
		m.notify(Notice{Kind: NoticeFallen, To: []ReplicaID{r.id}, QuorumID: id, Reason: reason})
	}
	switch {
	// Both of the quorums in which it may be, for which one it has the lighthouse cannot see.
	case r.member && m.fallen:
		if r.ran != 0 && r.ran != m.last.ID {
			tell(r.ran, m.fell.String()) // it may stand there, for its answer was lost
		}
		tell(m.last.ID, m.fell.String()) // or the answer is on its way, before this
	// Execution 7 of §10: the job went on without it.
	case !r.member && r.ran != 0:
		tell(r.ran, fmt.Sprintf("quorum %d followed without it", m.last.ID))
	}
}

// clear ends a suspicion.
func (m *Machine) clear(r *replica, why string) {
	m.event(EventCleared, r.id, why)
	m.unsuspect(r)
	m.unsign()
}

// unsuspect forgets what was held against a replica, and whom was asked about it.
func (m *Machine) unsuspect(r *replica) {
	if !r.suspect {
		r.accusers = nil
		return
	}
	r.suspect, r.vouched, r.since, r.extended = false, false, time.Time{}, time.Time{}
	r.accusers, r.watches, r.probe = nil, nil, 0
	m.suspects = slices.DeleteFunc(m.suspects, func(o *replica) bool { return o == r })
}

func insertReplica(list []*replica, r *replica) []*replica {
	at, found := slices.BinarySearchFunc(list, r.id, compareReplica)
	if found {
		return list
	}
	return slices.Insert(list, at, r)
}
