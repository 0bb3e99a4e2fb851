package quorum

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Open notes that a session's stream opened, or opened again: the replica is
// alive, and nothing of what was suspected of it holds. A member of a standing
// quorum of which members were told that a change is wanted is told again.
//
// Errors: ErrInvalid, ErrNotIssued, ErrKind, ErrEvicted, ErrNameInUse, ErrFull.
func (m *Machine) Open(now time.Time, h Hello) error {
	m.Advance(now)
	if err := m.validateHello(h); err != nil {
		return err
	}
	if err := m.checkIssued(now, "hello", h.Last.newestID(), h.Position.QuorumID); err != nil {
		return err
	}
	if err := m.admit(h.ReplicaID, h.Client); err != nil {
		return err
	}
	m.beforeHearing(now, m.replicas[h.ReplicaID]) // before its stream counts as heard
	r, err := m.ensure(now, h.ReplicaID)
	if err != nil {
		return err
	}
	// A goodbye, too, was said on the stream before: by this one it may join again.
	r.session, r.broken, r.left = true, false, false
	r.answered = 0 // the answer may have been lost with the stream before (§4.7: it is repeated)
	// §5: of a joiner that drains a new leader knows by the ledger alone.
	r.draining = r.draining || slices.Contains(m.ledger.Drained, r.id)
	// §4.4: the quiet of a first window begins anew.
	m.opened = now
	// §6: that its stream could be opened is a sign of its own, of this moment. What peers
	// said of a link before it is older.
	r.accusers = nil
	if r.suspect {
		m.clear(r, "its stream opened again")
	}
	if r.join != nil && r.join.Client == KindSkerry && r.join.Member.Position != h.Position {
		// It went on since: it took the join back, and that word is on its way. Until
		// it came a quorum would be formed at a position that the replica has left.
		m.dropJoin(r)
	}
	m.alive(now, r)
	// §4.3: where the ledger was lost the members bring the last quorum back.
	m.restore(now, h.ReplicaID, h.Last)
	// L3: what its trainer did while it was out of sight is not known, and held against it by none.
	m.progressed(now, r)
	m.notePosition(r, h.Position)
	m.noteRunning(r, h.Last.ref().id)
	m.event(EventOpened, r.id, "")
	// They may have been said to a leader that is no more.
	m.accuseAll(now, r.id, h.Accusations)
	m.tellFallen(r) // execution 7 of §10: else a quorum out of sight trains on beside the next
	// §5: it was told while its stream was down, or by another leader.
	if r.draining {
		m.notify(Notice{Kind: NoticeDrain, To: []ReplicaID{r.id}, Reason: "told again"})
	}
	// §3.2: the others were told, ask, and wait for this one's ask.
	if m.wanted.pushed && r.member && !m.fallen {
		m.notify(Notice{
			Kind: NoticeWanted, To: []ReplicaID{r.id}, QuorumID: m.lastID(), Reason: m.wanted.reason,
		})
	}
	// §4.4: its stream may have been the last one that was down.
	m.announceChange(now)
	m.rescheduleFor(r)
	return nil
}

func (m *Machine) validateHello(h Hello) error {
	// torchft's clients have no stream: they are known by heartbeats and joins.
	if h.Client != KindSkerry {
		return invalidf("a session of client kind %d, want %d", h.Client, KindSkerry)
	}
	return cmp.Or(validateID("replica id", h.ReplicaID), validatePosition("position", h.Position), validateLast(h.Last), validateAccusations(h.Accusations))
}

// accepts says that the job may hold such a client (§1): the first join fixed the kind,
// for as long as a join waits or a quorum was formed. (torchft's clients know no fact and
// no ballot: beside them no step of ours could be settled.)
func (m *Machine) accepts(c ClientKind) bool {
	return m.client == KindUnset || m.client == c || m.last == nil && m.pending == 0
}

// fixKind makes the job one of c's kind. What was heard of the other kind is
// forgotten: it can never join, and nobody waits for it.
func (m *Machine) fixKind(c ClientKind) {
	if m.client == c {
		return
	}
	m.client = c
	m.forget(func(r *replica) bool { return r.session != (c == KindSkerry) && !r.member && r.join == nil })
}

// admit refuses replicas that may not come at all. An id is never used again: one that was
// evicted or replaced comes back as a new incarnation.
func (m *Machine) admit(id ReplicaID, c ClientKind) error {
	if !m.accepts(c) {
		return fmt.Errorf("%w: %q is of kind %v, the job of kind %v", ErrKind, id, c, m.client)
	}
	if slices.Contains(m.ledger.Evicted, id) {
		return fmt.Errorf("%w: %q", ErrEvicted, id)
	}
	if r := m.replicas[id]; r != nil && r.replaced != "" && c == KindSkerry {
		return fmt.Errorf("%w: %q took the place of %q", ErrNameInUse, r.replaced, id)
	}
	return nil
}

// Join takes a replica's word that it wants to be in the next quorum (§4.1). It is
// idempotent. A join that is refused changes nothing. A join of an incarnation whose
// predecessor may still be alive is held, and may be refused later by a NoticeRefused.
//
//	refused     by an error, which says what its sender does next
//	held        its name may be in use (§4.1): it counts for nothing yet
//	waits       it counts: the replica is live, and a candidate; a higher number replaces it
//	answered    with the quorum that was formed, the last one again, or, where it drains, one
//	            without it
//	dropped     taken back; or its replica left, was evicted, or is lost and has no session; or
//	            the stream broke of one that is no member
//
// Errors: ErrInvalid, ErrNotIssued, ErrKind, ErrEvicted, ErrDrained, ErrNameInUse,
// ErrModes, ErrNoSession, ErrStaleJoin, ErrFull.
func (m *Machine) Join(now time.Time, j Join) error {
	m.Advance(now)
	if err := validateJoin(j); err != nil {
		return err
	}
	// §4.7: before anything is noted. An id that was believed once has lifted the floor for
	// good.
	if err := m.checkIssued(now, "join", j.Last.newestID(), j.Member.Position.QuorumID, j.Fact.QuorumID); err != nil {
		return err
	}
	if err := m.admitJoin(j); err != nil {
		return err
	}
	// From here on the join is taken: what is refused above has changed nothing.
	m.fixKind(j.Client)
	m.beforeHearing(now, m.replicas[j.Member.ReplicaID])
	r, err := m.ensure(now, j.Member.ReplicaID)
	if err != nil {
		return err
	}
	m.alive(now, r)
	m.restore(now, r.id, j.Last)
	if m.last != nil && j.Last.ref() == m.last.ref() {
		// All members of the last quorum carry the same list; one copy is enough.
		last := *j.Last
		last.Members = m.last.Members
		j.Last = &last
	}
	m.notePosition(r, j.Member.Position)
	m.noteRunning(r, j.Last.ref().id)
	// Q1: after a lost ledger the next id is above those that its members were told.
	m.ledger.HighestID = max(m.ledger.HighestID, j.Fact.QuorumID, j.Last.ref().id)

	// §4.1: a join is idempotent; the newest number is what its sender says now.
	before := r.join
	w := &waiting{Join: j, at: now}
	if before == nil {
		m.pending++
	} else {
		// A repeated join is the same wait: else its sender would put the timeout off with
		// each of them, also that of the incarnation which it waits for.
		w.at, w.until, w.held = before.at, before.until, before.held
	}
	r.join, r.number, r.joined = w, j.Number, true
	// L1: it stays while joins are taken back and made anew, until one is answered (waiting).
	if r.wants.IsZero() {
		r.wants = now
	}
	m.notesAway(now, r, false)
	if r.stuck && !r.hung && before == nil {
		// It was stuck because it had not joined, and waits from now on: its counter moves no more.
		// (It stayed stuck, and was never a candidate: a newcomer that copied a state ahead for
		// longer than StuckAfter, and a replica of two ranks, one of which was late.)
		m.progressed(now, r)
	}
	// A repeat is no news: managers send a join again over each new stream.
	if before == nil || before.Number != j.Number || before.Kind != j.Kind {
		m.event(EventJoined, r.id, describeJoin(j))
	}
	m.accuseAll(now, r.id, j.Accusations)
	// §4.1: is the place of its name free? One that is held arrives when it is, see supersede.
	m.holdNewcomer(now, r)
	// torchft's are not held: it counts at once, beside the one that it may replace.
	if r.join != nil && !r.join.held && r.join.until.IsZero() || m.client == KindTorchft {
		m.arrivedAfter(now, r, before)
	}
	m.rescheduleFor(r)
	return nil
}

func describeJoin(j Join) string {
	kind := [...]string{"step", "fall", "ask"}[j.Kind]
	s := fmt.Sprintf("%s at step %d", kind, j.Member.Position.Step)
	// Its position is none: to name the step 0 of none would mislead.
	if j.Member.Torn {
		s = kind + ", its ranks at different positions"
	} else if j.Member.Differs {
		s += ", its state differs"
	}
	if j.Fact.Kind != NoFact {
		s += fmt.Sprintf(", %s step %d of quorum %d", j.Fact.Kind, j.Fact.Step, j.Fact.QuorumID)
	}
	return s
}

// admitJoin refuses a join that may not come now (§4.1). What is refused changes nothing.
func (m *Machine) admitJoin(j Join) error {
	id := j.Member.ReplicaID
	if err := m.admit(id, j.Client); err != nil {
		return err
	}
	r := m.replicas[id]
	switch {
	case slices.Contains(m.ledger.Drained, id) && (r == nil || !r.member):
		// §5: as a member it joins on, for its fact counts, and it may hold the state alone.
		return fmt.Errorf("%w: %q", ErrDrained, id)
	// §8: it was under way beside the goodbye. Taken, it would make a replica that is gone live
	// again.
	case r != nil && r.left && j.Client == KindSkerry:
		return fmt.Errorf("%w: %q said goodbye", ErrNoSession, id)
	case r != nil && j.Number < r.number:
		// One that its sender has replaced or taken back: its fact may be given up since.
		return fmt.Errorf("%w: number %d of %q, seen %d", ErrStaleJoin, j.Number, id, r.number)
	case r != nil && j.Client == KindSkerry && j.Number <= r.answered:
		// A stream loses nothing, so this one came twice: what it says is old, and
		// its sender runs in the quorum that answered it.
		return fmt.Errorf("%w: number %d of %q was answered on this stream", ErrStaleJoin, j.Number, id)
	// A bound like all that peers can make grow.
	case (r == nil || r.join == nil) && m.pending >= MaxPending:
		return fmt.Errorf("%w: %d joins wait", ErrFull, m.pending)
	case j.Client == KindSkerry:
		return m.checkModes(j.Member)
	}
	return nil
}

// checkModes compares the modes that must be equal in a job (§4.1) with those of one
// live replica: all that were let in agree with each other. (Assign derives from them
// who heals, who takes part and who meets whom at a group rank: members that disagree
// would wait for each other.) A replica's own former incarnation does not count: it may
// come back with other settings.
func (m *Machine) checkModes(own Member) error {
	name, _ := incarnation(own.ReplicaID)
	check := func(o Member) error {
		if modesOf(own) == modesOf(o) {
			return nil
		}
		return fmt.Errorf("%w: %q has %v, %q has %v", ErrModes, own.ReplicaID, modesOf(own), o.ReplicaID, modesOf(o))
	}
	other := func(r *replica, id ReplicaID) bool {
		n, ok := incarnation(id)
		return r != nil && !r.lost && !r.evicted && id != own.ReplicaID && !(ok && n == name)
	}
	// The members before those that wait: what trains is right, and a newcomer is to be told so.
	if m.last != nil {
		for _, o := range m.last.Members {
			if other(m.replicas[o.ReplicaID], o.ReplicaID) {
				return check(o)
			}
		}
	}
	for _, r := range m.order {
		if r.join != nil && other(r, r.id) {
			return check(r.join.Member)
		}
	}
	return nil
}

type modes struct {
	groupWorldSize int
	fixedWorldSize int
	initSync       bool
}

func modesOf(m Member) modes { return modes{max(m.GroupWorldSize, 1), m.FixedWorldSize, m.InitSync} }

// String names the modes for an error.
func (m modes) String() string {
	return fmt.Sprintf("{group world size %d, fixed world size %d, init sync %t}",
		m.groupWorldSize, m.fixedWorldSize, m.initSync)
}

// arrived is a join that counts from now on.
func (m *Machine) arrived(now time.Time, r *replica) { m.arrivedAfter(now, r, nil) }

// arrivedAfter is arrived for a join that replaces one: what was pushed for that
// one is not pushed again.
func (m *Machine) arrivedAfter(now time.Time, r *replica, before *waiting) {
	w := r.join
	if r.member && !m.repeats(r) && m.client == KindSkerry { // torchft's join with each step
		m.sign(now.Add(-w.Fall.Ago))
	}
	// §3.1: a member's fall ends the quorum, and what it knows goes to the others at once
	// (C7). One that only lacks the last answer ends nothing: it gets that again.
	if w.Kind == JoinFall {
		if r.member && !m.repeats(r) {
			m.fall(now, m.fallCause(r))
		}
		// What it knew has been told; a repeat has no other fact.
		if before == nil || before.Kind != JoinFall || !sameFact(before.Fact, w.Fact) {
			m.pushFallen(r)
		}
	}
	// A joiner that comes while a decision is written is not part of it: Form looks whether
	// there were such (C7).
	if before == nil && !r.member {
		m.joiners++
	}
	if before == nil && !r.member && !m.wanted.again.IsZero() {
		m.wanted.pushed = false // what came to nothing was not about this joiner
	}
	m.announceChange(now)
}

func sameFact(a, b Fact) bool {
	return a.Kind == b.Kind && a.about(b.Step, b.QuorumID) && slices.Equal(a.Digests, b.Digests)
}

// pushFallen tells those who ran with r, and have not joined yet, that their
// quorum fell and what r knows: of the step that it committed there, if it did,
// for a member one step ahead has news only of that one; else of the step under
// way. Where r ran in an older quorum, because it never had the last answer, the
// others of the last one are told that they wait for it in vain.
//
//	r ran in                     told in that quorum     told in the last one, if r is a member
//	the last one                                         the fall, and r's fact
//	an older one                 the fall, r's fact      the fall
//	an older one, settled since  –                       the fall
func (m *Machine) pushFallen(r *replica) {
	w := r.join
	id := w.Last.ref().id
	// Of no quorum there is nothing to tell; and one that gets the last answer again ends none.
	if m.last == nil || id == 0 || m.repeats(r) {
		return
	}
	// §3.1: a member that is one step ahead has news only about the step that it committed.
	// (Told of the next one, those prepared for this one would wait for a settlement.)
	fact := w.Fact
	if p := w.Member.Position; p.QuorumID == id {
		fact = Fact{Kind: Committed, Step: p.Step, QuorumID: id, Digests: w.LastDigests}
	}
	// Execution 4 of §10: r went on in the older quorum. Those who run there too may be
	// prepared for the step that it committed; those who took the last answer wait for r.
	if id != m.last.ID {
		// Else its step was settled, and what r knows of it is no news.
		if !m.closed(id) {
			to := m.unjoined(r, m.listOf(w.Last), func(o *replica) bool { return o.ran == id })
			m.notify(Notice{Kind: NoticeFallen, To: to, QuorumID: id, About: r.id, Fact: fact})
		}
		// It is not about the last quorum: by its own word r has not been there.
		fact = Fact{}
	}
	// One that is no member ends nothing; what it knows of the older quorum is told above.
	if r.member && !m.alreadyTold(fact) {
		to := m.unjoined(r, m.last.Members, func(*replica) bool { return true })
		m.notify(Notice{Kind: NoticeFallen, To: to, QuorumID: m.last.ID, About: r.id, Fact: fact})
	}
}

// unjoined are the members, but r, that can be told and have not joined.
func (m *Machine) unjoined(r *replica, members []Member, which func(*replica) bool) []ReplicaID {
	var to []ReplicaID
	for _, member := range members {
		o := m.replicas[member.ReplicaID]
		// One that has joined gets an answer, which says more than the notice.
		if o != nil && o != r && !o.lost && !o.evicted && o.join == nil && which(o) {
			to = append(to, o.id)
		}
	}
	return to
}

// accuseAll takes the accusations that a message carried. Its sender's word on
// itself alone counts, and one that does not fit is dropped: the message is good.
func (m *Machine) accuseAll(now time.Time, by ReplicaID, as []Accusation) {
	for _, a := range as {
		if a.By != by {
			continue
		}
		// ErrInvalid here means a quorum that has gone since it was written.
		_ = m.Accuse(now, a)
	}
}

// Withdraw takes a join back (§2.6, §3.2): an ask that went unanswered, or a deadline.
// Other numbers than the one that waits are old news. From now on no decision counts on
// the claim that the join carried: its sender has given it up.
func (m *Machine) Withdraw(now time.Time, id ReplicaID, number uint64) {
	m.Advance(now)
	r := m.replicas[id]
	// The answer and the withdrawal have crossed: the sender refuses the answer (§2.6).
	if r == nil || r.join == nil || r.join.Number != number {
		return
	}
	asked := r.join.Kind == JoinAsk
	// §3.2: it is told again in a while, not at once: a lighthouse that cannot answer would
	// cost the members a heartbeat timeout after each step.
	if r.member && asked && m.wanted.pushed {
		m.wanted.again = now.Add(m.config.HeartbeatTimeout)
	}
	m.dropJoin(r)
	m.event(EventWithdrawn, id, "")
	if asked {
		m.tellFallen(r) // §3.1: while its join waited it was told of no fall
	}
	m.unsign()
	m.announceChange(now)
	m.reschedule()
}

// restore makes a member's last answer the last quorum, if this machine knows of
// none as new: the ledger was lost (§4.3). Its members are presumed alive. (Otherwise the
// first of them to come back would be a newcomer of an empty job, and form a quorum of
// its own while the others train.) An answer with fewer members than there must be (Q3)
// is not one that could be told again.
//
//	newer than the last quorum          it is the last one from now on
//	of a view                           the member's part is gathered (takePart)
//	the last quorum's, or older         nothing: that is known, or over
//	its id is the last one's, its       nothing: one of the two was told by none (Q2)
//	members are not
//	its sender is not in it             nothing: it was told to members alone
func (m *Machine) restore(now time.Time, by ReplicaID, l *LastAnswer) {
	// §4.3: of a large quorum, which no single member can bring back.
	if l != nil && l.Part != nil {
		m.takePart(now, m.replicas[by], l)
		return
	}
	if l == nil || !m.last.ref().less(l.ref()) || len(l.Members) == 0 || len(l.Members) < m.config.MinReplicas {
		return
	}
	// Only a member was told an answer. Another one's word would make a quorum of whomever it
	// names.
	if _, found := memberRank(l.Members, by); !found {
		return
	}
	if m.last != nil && l.QuorumID == m.last.ID && !sameMembers(l.Members, m.last.Members) {
		return // Q2: no lighthouse has told a second list under one id
	}
	// §1: the cluster is part of the epoch, and of the positions that are committed in it.
	cluster := l.Cluster
	if cluster == "" {
		cluster = highest("", l.Members).Cluster
	}
	if cluster == "" {
		cluster = m.ledger.Cluster
	}
	q := &Quorum{
		Cluster: cluster, Job: m.ledger.Job, ID: l.QuorumID, Round: l.Round, Members: slices.Clone(l.Members),
		Participants: participants(cluster, l.Members), Reason: "restored from the answer of " + string(by),
	}
	// Only ours are told answers that they restate: by this the job is of our kind (§1).
	m.client = KindSkerry
	m.setLast(now, q)
	m.event(EventRestored, "", q.Reason)
	// They may copy from a member of a quorum that the ledger had, and this one has not.
	m.callOrphans()
}
