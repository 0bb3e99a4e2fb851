package quorum

import (
	"cmp"
	"fmt"
	"slices"
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

// watch is a peer whose progress may clear a suspect.
type watch struct {
	peer    ReplicaID
	replied bool   // the probe reached it
	based   bool   // its first beat after that was heard
	base    uint64 // the ballots which that beat told
	latest  uint64
}

// Advance lets time pass: whoever has been silent for too long becomes suspect
// or lost, whoever does nothing becomes stuck, and whoever is long gone is
// forgotten. Every input does it first; the shell does it when it wakes. Time
// that goes back panics.
func (m *Machine) Advance(now time.Time) {
	if now.Before(m.now) {
		panic(fmt.Sprintf("quorum: time went back by %v", m.now.Sub(now)))
	}
	m.now = now
	if now.Before(m.due) {
		return
	}
	m.look(now)
	m.want(now)
	m.reschedule()
}

// look judges everybody.
func (m *Machine) look(now time.Time) {
	for _, r := range slices.Clone(m.order) {
		m.judge(now, r)
		if m.forgettable(now, r) {
			m.event(EventForgotten, r.id, "")
			m.forget(r)
		}
	}
}

// reschedule finds anew when time alone may next change something.
func (m *Machine) reschedule() {
	m.due = m.now.Add(ForgetAfter)
	for _, r := range m.order {
		m.touch(r)
	}
	m.soon(m.wanted.again)
	for _, l := range m.links {
		m.soon(l.until)
	}
}

// touch is reschedule for one replica, whose time may have come nearer.
func (m *Machine) touch(r *replica) {
	m.soon(m.deadline(r))
}

func (m *Machine) soon(at time.Time) {
	if at.After(m.now) && at.Before(m.due) {
		m.due = at
	}
}

// at is the machine as it is at now: itself, or a copy for which time has passed.
func (m *Machine) at(now time.Time) *Machine {
	if now.Before(m.now) {
		panic(fmt.Sprintf("quorum: time went back by %v", m.now.Sub(now)))
	}
	if now.Before(m.due) {
		return m
	}
	c := *m
	c.notices, c.events = nil, nil
	c.links = slices.Clone(m.links)
	c.replicas = make(map[ReplicaID]*replica, len(m.order))
	c.order = make([]*replica, len(m.order))
	all := make([]replica, len(m.order))
	for i, r := range m.order {
		all[i] = *r
		all[i].accusers = slices.Clone(r.accusers)
		all[i].watches = slices.Clone(r.watches)
		if r.join != nil {
			join := *r.join
			all[i].join = &join
		}
		c.order[i] = &all[i]
		c.replicas[r.id] = &all[i]
	}
	c.suspects = nil
	for _, r := range m.suspects {
		c.suspects = append(c.suspects, c.replicas[r.id])
	}
	c.Advance(now)
	return &c
}

// Doubt tells that this process was itself descheduled for the duration of
// late: what it did not hear meanwhile is held against nobody.
func (m *Machine) Doubt(now time.Time, late time.Duration) {
	if late <= 0 {
		return
	}
	for _, r := range m.order {
		r.seen = earlier(now, r.seen.Add(late))
		r.progressAt = earlier(now, r.progressAt.Add(late))
		if r.suspect {
			r.since = earlier(now, r.since.Add(late))
		}
	}
	m.reschedule()
}

// Heartbeat says that a replica of torchft's is alive. Replicas that merely beat
// count for the majority, as torchft has it.
func (m *Machine) Heartbeat(now time.Time, id ReplicaID) error {
	m.Advance(now)
	if err := validateID("replica id", id); err != nil {
		return err
	}
	if m.client == KindSkerry {
		return fmt.Errorf("%w: a heartbeat of torchft's kind from %q", ErrKind, id)
	}
	r, err := m.ensure(now, id)
	if err != nil {
		return err
	}
	if r.evicted {
		return fmt.Errorf("%w: %q", ErrEvicted, id)
	}
	m.alive(now, r)
	m.touch(r)
	return nil
}

// Beat says that a replica is alive, and how far it is.
func (m *Machine) Beat(now time.Time, id ReplicaID, b Beat) error {
	m.Advance(now)
	if err := validatePosition("beat's position", b.Position); err != nil {
		return err
	}
	if err := validateNumber("beat's quorum id", b.QuorumID); err != nil {
		return err
	}
	r := m.replicas[id]
	switch {
	case r == nil || !r.session && (!r.member || r.broken):
		return fmt.Errorf("%w: %q", ErrNoSession, id)
	case r.evicted:
		return fmt.Errorf("%w: %q", ErrEvicted, id)
	case r.replaced != "":
		return fmt.Errorf("%w: %q took the place of %q", ErrNameInUse, r.replaced, id)
	}
	back := r.lost
	m.alive(now, r)
	if b.Progress != r.beat.Progress || b.Ballots != r.beat.Ballots || b.Phase != r.beat.Phase {
		m.progressed(now, r)
	}
	r.beat = b
	m.saw(r, b.Position)
	r.ran = max(r.ran, b.QuorumID)
	m.ledger.HighestID = max(m.ledger.HighestID, b.QuorumID)
	if back {
		m.tellFallen(r)
	}
	m.witness(now, r)
	m.touch(r)
	return nil
}

// Broken says that a replica's stream broke: one witness. withServer says that
// the server which held the stream is gone too: no witness at all, and its
// silence counts from now. The shell calls it for the newest stream only.
func (m *Machine) Broken(now time.Time, id ReplicaID, why string, withServer bool) {
	m.Advance(now)
	r := m.replicas[id]
	if r == nil || !r.session {
		return
	}
	defer m.reschedule()
	r.session = false
	m.event(EventBroken, id, why)
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
	for _, newcomer := range m.rivals(id) {
		m.release(now, newcomer)
	}
}

// Accuse takes a peer's word that its link to a member broke first. One about an
// older quorum is old news and is dropped.
func (m *Machine) Accuse(now time.Time, a Accusation) error {
	m.Advance(now)
	if err := validateAccusation(a); err != nil {
		return err
	}
	if m.last == nil || a.QuorumID != m.last.ID {
		return nil
	}
	by, against := m.replicas[a.By], m.replicas[a.Against]
	if by == nil || against == nil || !by.member || !against.member {
		return invalidf("%q accuses %q, want two members of quorum %d", a.By, a.Against, m.last.ID)
	}
	if slices.Contains(against.accusers, a.By) || m.accusedBefore(a) {
		return nil
	}
	m.event(EventAccused, a.Against, fmt.Sprintf("by %s: %s", a.By, a.Evidence))
	if len(m.accused) < MaxHistory {
		m.accused = append(m.accused, a)
	}
	m.strike(now, a.By, a.Against)
	if against.lost {
		return nil
	}
	against.accusers = insertID(against.accusers, a.By)
	before := against.suspect
	m.judge(now, against)
	if before && against.suspect {
		m.sendProbe(against) // the former probe may have been answered before this
	}
	m.reschedule()
	return nil
}

func (m *Machine) accusedBefore(a Accusation) bool {
	return slices.ContainsFunc(m.accused, func(b Accusation) bool {
		return a.By == b.By && a.Against == b.Against
	})
}

// Reply answers a probe: it clears what the probe was sent for, or, from a peer,
// begins the count of its ballots.
func (m *Machine) Reply(now time.Time, id ReplicaID, probe uint64) {
	m.Advance(now)
	r := m.replicas[id]
	if r == nil || r.replaced != "" || r.evicted || !r.session {
		return
	}
	m.alive(now, r)
	if r.suspect && r.probe == probe {
		m.clear(r, "answered a probe")
	}
	for _, s := range m.suspects {
		for i := range s.watches {
			if w := &s.watches[i]; s.probe == probe && w.peer == id {
				w.replied = true
			}
		}
	}
}

// alive notes a sign of life.
func (m *Machine) alive(now time.Time, r *replica) {
	r.seen = now
	r.replaced = ""
	if r.lost {
		r.lost, r.lostWhy = false, ""
		m.event(EventReturned, r.id, "")
	}
	if r.suspect && !r.broken && len(r.accusers) == 0 {
		m.clear(r, "was heard")
	}
	m.refuseRivals(now, r)
}

// tellFallen tells a replica that comes back, or is heard again, that the quorum
// it ran in is no more: nobody else may be left who can. It went on alone, or
// waits in an op.
func (m *Machine) tellFallen(r *replica) {
	if m.client != KindSkerry || m.last == nil || r.join != nil || r.ran == 0 || r.ran > m.last.ID {
		return
	}
	if r.member && (!m.fallen || r.ran != m.last.ID) {
		return
	}
	n := Notice{Kind: NoticeFallen, To: []ReplicaID{r.id}, QuorumID: r.ran, Reason: m.fellBy}
	if !r.member {
		n.Reason = fmt.Sprintf("quorum %d followed without it", m.last.ID)
	}
	m.notify(n)
}

func (m *Machine) progressed(now time.Time, r *replica) {
	r.progressAt = now
	if r.stuck {
		r.stuck = false
		m.event(EventCleared, r.id, "progresses again")
	}
}

// judge weighs the witnesses against one replica.
func (m *Machine) judge(now time.Time, r *replica) {
	if r.lost {
		return
	}
	if r.join != nil && !r.join.until.IsZero() && !now.Before(r.join.until) {
		m.supersede(now, r)
	}
	silence := now.Sub(r.seen)
	if m.client != KindSkerry {
		if silence >= m.config.HeartbeatTimeout {
			m.lose(now, r, fmt.Sprintf("silent for %v", silence))
		}
		return
	}
	missed := silence >= m.config.SuspectAfter
	sight := r.broken || missed
	switch {
	case sight && len(r.accusers) > 0:
		m.lose(now, r, m.testimony(r, missed)) // two independent witnesses
		return
	case !now.Before(m.lostBy(r)):
		m.lose(now, r, m.testimony(r, missed)+", grace is over")
		return
	case (sight || len(r.accusers) > 0) && !r.suspect:
		r.suspect, r.since = true, now
		m.suspects = insertReplica(m.suspects, r)
		m.event(EventSuspect, r.id, m.testimony(r, missed))
		m.sendProbe(r)
	}
	m.judgeProgress(now, r)
}

// lostBy is when a replica is lost if nothing speaks for it any more.
func (m *Machine) lostBy(r *replica) time.Time {
	at := r.seen.Add(m.config.HeartbeatTimeout)
	if r.suspect {
		at = earlier(at, r.since.Add(m.config.Grace))
	}
	if r.suspect && !r.extended.IsZero() {
		at = r.extended.Add(m.config.Grace)
	}
	return at
}

func (m *Machine) testimony(r *replica, missed bool) string {
	var s string
	switch {
	case r.broken:
		s = "stream broke"
	case missed:
		s = "beats missed"
	}
	if len(r.accusers) > 0 {
		if s != "" {
			s += ", "
		}
		s += "accused by " + nameIDs(r.accusers)
	}
	if s == "" {
		s = "silent"
	}
	return s
}

// judgeProgress finds out who is alive and does nothing.
func (m *Machine) judgeProgress(now time.Time, r *replica) {
	if r.stuck || !m.mayBeStuck(r) || now.Before(m.stuckAt(r)) {
		return
	}
	r.stuck = true
	m.event(EventStuck, r.id, fmt.Sprintf("no progress for %v", m.config.StuckAfter))
	if m.config.EvictStuck && (r.member || r.joined) {
		m.evict(now, r, "stuck")
	}
}

// mayBeStuck: a replica that waits for us is not stuck, nor is one that idles
// while nobody waits for it.
func (m *Machine) mayBeStuck(r *replica) bool {
	return m.config.StuckAfter > 0 && r.session && r.join == nil && !r.evicted &&
		(r.beat.Phase != PhaseIdle || m.fallen || m.last == nil)
}

// stuckAt is when a replica that does nothing is stuck: one that idles only
// since somebody waits for it.
func (m *Machine) stuckAt(r *replica) time.Time {
	from := r.progressAt
	if r.beat.Phase == PhaseIdle && from.Before(m.fallenAt) {
		from = m.fallenAt
	}
	return from.Add(m.config.StuckAfter)
}

// deadline is when judge or forgettable may next find something new.
func (m *Machine) deadline(r *replica) time.Time {
	if r.lost {
		return r.lostAt.Add(ForgetAfter)
	}
	at := r.seen.Add(m.config.HeartbeatTimeout)
	if m.client == KindSkerry {
		at = m.lostBy(r)
		if !r.suspect {
			at = earlier(at, r.seen.Add(m.config.SuspectAfter))
		}
		if m.mayBeStuck(r) && !r.stuck {
			at = earlier(at, m.stuckAt(r))
		}
	}
	if r.join != nil && !r.join.until.IsZero() {
		at = earlier(at, r.join.until)
	}
	return at
}

func (m *Machine) forgettable(now time.Time, r *replica) bool {
	return r.lost && !r.member && now.Sub(r.lostAt) >= ForgetAfter
}

// lose makes a replica known dead. All other members are told at once, and the
// quorum falls if it was one of them.
func (m *Machine) lose(now time.Time, r *replica, why string) {
	m.unsuspect(r)
	if !r.session && m.client == KindSkerry {
		m.dropJoin(r) // it joins again when it comes back; over an open stream it need not
		r.joined = false
	}
	r.lost, r.lostAt, r.lostWhy = true, now, why
	m.event(EventLost, r.id, why)
	if r.member && !r.evicted && m.client != KindTorchft {
		m.bereave(now, r, "was lost: "+why)
	}
	for _, newcomer := range m.rivals(r.id) {
		m.releaseFrom(now, newcomer)
	}
}

// bereave tells the other members that one of them is gone for good.
func (m *Machine) bereave(now time.Time, r *replica, why string) {
	m.notify(Notice{
		Kind: NoticeLost, To: m.others(r.id), QuorumID: m.lastID(), About: r.id, Reason: why,
	})
	m.fall(now, string(r.id)+" "+why)
}

// sendProbe asks the suspect to speak, and some of its peers to bear witness.
func (m *Machine) sendProbe(r *replica) {
	m.probes++
	r.probe = m.probes
	r.watches = nil
	to := []ReplicaID{r.id}
	if r.member && !m.fallen {
		for _, peer := range m.watchers(r) {
			r.watches = append(r.watches, watch{peer: peer})
			to = insertID(to, peer)
		}
	}
	m.notify(Notice{Kind: NoticeProbe, To: to, QuorumID: m.lastID(), About: r.id, Number: r.probe})
}

// watchers are the members after r, in the ring of replica ranks, that can be
// asked.
func (m *Machine) watchers(r *replica) []ReplicaID {
	rank, _ := memberRank(m.last.Members, r.id)
	var out []ReplicaID
	n := len(m.last.Members)
	for k := 1; k < n && len(out) < probePeers; k++ {
		peer := m.replicas[m.last.Members[(rank+k)%n].ReplicaID]
		if peer != nil && peer.session && !peer.suspect {
			out = append(out, peer.id)
		}
	}
	return out
}

// witness counts what a peer's beat says for suspects: two more ballots in the
// standing quorum than when the probe had reached it clear them. A ballot needs
// all members, so the second one was begun after the suspicion; one alone may be
// old news, and only extends the grace. The watch goes on while the suspect is
// silent: each further ballot extends the grace, and when they end it is lost.
func (m *Machine) witness(now time.Time, peer *replica) {
	if len(m.suspects) == 0 || m.fallen || peer.beat.QuorumID != m.lastID() {
		return
	}
	for _, s := range m.suspects {
		for i := range s.watches {
			w := &s.watches[i]
			if w.peer != peer.id || !w.replied {
				continue
			}
			if !w.based {
				// The probe reached it before this beat, at most at this count.
				w.based, w.base, w.latest = true, peer.beat.Ballots, peer.beat.Ballots
				continue
			}
			if peer.beat.Ballots > w.latest {
				w.latest = peer.beat.Ballots
				s.extended = now
			}
			if w.latest >= w.base+2 && !s.vouched {
				s.vouched, s.accusers = true, nil
				m.event(EventCleared, s.id, fmt.Sprintf("%s steps with it", peer.id))
			}
		}
	}
}

// clear ends a suspicion.
func (m *Machine) clear(r *replica, why string) {
	m.event(EventCleared, r.id, why)
	m.unsuspect(r)
}

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

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// nameIDs lists ids for people, and counts those beyond maxNamed.
func nameIDs[T cmp.Ordered](ids []T) string {
	shown := ids[:min(len(ids), maxNamed)]
	s := ""
	for i, id := range shown {
		if i > 0 {
			s += " "
		}
		s += fmt.Sprint(id)
	}
	if rest := len(ids) - len(shown); rest > 0 {
		s += fmt.Sprintf(" and %d more", rest)
	}
	return s
}
