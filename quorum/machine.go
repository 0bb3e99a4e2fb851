package quorum

import (
	"fmt"
	"slices"
	"time"

	"github.com/skerry-ft/skerry/quorum/internal/pace"
)

// Machine is one job's state at the leader: the ledger, and what is soft, that
// is who was heard when and who has joined. It is owned by one goroutine. New
// makes one; the zero value is not useful.
type Machine struct {
	config Config     // the rules in force, as the shell stretches them
	ledger Ledger     // what raft has, and ids that only replicas have named (HighestID)
	last   *Quorum    // the last quorum: the ledger's with newer positions, or a newer one that a member carried here
	client ClientKind // as the ledger has it, or as the joins that wait have fixed it (§1)
	now    time.Time  // of the newest input: time does not go back

	// Who is known, and what time has done to them.
	replicas map[ReplicaID]*replica
	order    []*replica    // the same, sorted by id: no map order in any result
	limit    int           // how many there may be that are not lost; 0: MaxKnown
	beat     time.Duration // between two beats of a session; 0: the default
	pending  int           // joins that wait, held ones too
	suspects []*replica    // sorted by id
	opened   time.Time     // when the newest session opened
	looked   time.Time     // when everybody was judged last
	due      time.Time     // the earliest time at which time alone may change something
	waits    waits         // who waits for a member of the last quorum that stands
	blind    bool          // doubts its own sight, as of the last look

	// A last quorum that is too long to be told as a list, or is put together from parts (§4.3).
	seats    map[Seat]ReplicaID // of all whose seats are known
	unseated int                // members of the last quorum that were told views, and whose seats are not known
	absent   int                // members of the last quorum that were not heard of since it was restored from parts
	gather   *gathering         // a newer quorum than the last, of which parts come

	formed time.Time // when the last quorum began, or this machine heard of it

	// Its end, and what its members were told of a change (§3).
	fallen   bool      // the last quorum fell: a member joined with fall, or is lost
	fallenAt time.Time // from when the join timeout counts (§4.4); zero while it stands
	fell     Cause     // why; that of a member's death, if one explains it
	change   string    // a change that no joiner stands for: a drain, new rules
	signed   time.Time // the first sign of its end, or of an ask for another one; zero: none
	changed  *Change   // what it changed as it was formed; nil once a member committed in it
	began    time.Time // the first sign of that
	ended    bool      // that all its members left was told
	wanted   wanted    // what members were told of that, or of a joiner
	joiners  uint64    // joins from outside the last quorum so far: rises with each
	// What is remembered of links, names, and quorums that came to nothing (§6, §6a).
	links    []link
	accused  []Accusation // in the last quorum, for the history
	told     announced    // to the members of the last quorum, if they are a crowd
	flaps    []flap       // sorted by name: who was lost soon after it was let in
	refusals []refusal    // sorted by name: who breaks quorums though it lives
	trial    trial        // who of the last quorum called something else than whom
	barren   int          // quorums in a row that committed nothing
	pace     pace.Pace    // how long a step takes, for StuckAfter (L3)
	budget   budget       // when the job may form its next quorum (L1)
	highest  Position     // the highest position seen; it falls when a quorum is formed below it (C4)
	probes   uint64       // the number of the newest probe; none has that of an earlier one

	// What the shell fetches after each input, and forgets here.
	notices []Notice
	events  []Event
}

// wanted is what members of the last quorum were told about a change (§3.2). A new quorum, and a
// new leader, begin with none.
type wanted struct {
	pushed bool
	reason string
	again  time.Time // when to tell them again, if a reason remains; zero: never
}

// New makes the machine of a new leader. The members of the ledger's last
// quorum are presumed alive for one HeartbeatTimeout, so that a change of leader
// never shrinks a healthy quorum. The ledger's config overrides c. An invalid
// config is the caller's error and panics.
//
//	from the ledger    the last quorum and its positions, what was settled, who drains or is
//	                   evicted, the rules, and above which id the next one is
//	presumed           the quorum stands, and its members live: one that is not heard for a
//	                   heartbeat timeout is lost
//	told again         sessions, positions, joins, accusations and parted links, by the members
//	forgotten          flaps and refusals, how long steps take, the budget that is spent
func New(now time.Time, c Config, l Ledger) *Machine {
	if l.Config != nil {
		c = *l.Config
	}
	if err := c.Validate(); err != nil {
		panic(fmt.Sprintf("quorum: New: %v", err))
	}
	m := &Machine{
		config: c, ledger: l.Clone(), client: l.Client, now: now, opened: now,
		replicas: make(map[ReplicaID]*replica),
	}
	// §6: their streams broke with the leader before, which is no witness against them.
	if l.Last != nil {
		// Shallow is enough: quorums are not written once they are made.
		q := *l.Last
		m.setLast(now, &q)
		for _, r := range m.order {
			r.heals = false // the leader before knows
		}
	}
	// A member that was evicted just before the change of leader: the others are still in a
	// quorum with it.
	for _, id := range l.Evicted {
		if r := m.replicas[id]; r != nil {
			r.evicted, r.lost, r.lostAt = true, true, now
			r.gone = Cause{Kind: CauseEvicted, Replica: id, Evidence: "evicted"}
			m.fall(now, r.gone)
		}
	}
	m.reschedule()
	for _, id := range l.Drained {
		if r := m.replicas[id]; r != nil {
			// §5: a drain outlives the leader that took it. The replica is told again when it
			// opens its session.
			r.draining = true
			m.change = drainOf(id)
		}
	}
	return m
}

// Last is the last quorum, nil when there was none. The caller does not change
// what it points to.
func (m *Machine) Last() *Quorum { return m.last }

// Ledger is the machine's view of the ledger. The raft FSM's is the truth: this one is
// ahead while a command is under way, its HighestID counts ids that replicas named, and its
// Config is the rules in force.
func (m *Machine) Ledger() Ledger { return m.ledger.Clone() }

// Config is the rules in force.
// The shell stretches them (JobRules.InForce), so they may be other ones than the ledger's.
func (m *Machine) Config() Config { return m.config }

// Notices returns what is to be pushed, oldest first, and forgets it. Answers of a Form go out
// before them: a member that hears of the fall of a quorum first keeps the notice (Rank.Hear).
func (m *Machine) Notices() []Notice {
	n := m.notices
	m.notices = nil
	return n
}

// Events returns what happened, oldest first, and forgets it.
func (m *Machine) Events() []Event {
	e := m.events
	m.events = nil
	return e
}

// Configure replaces the rules. Members are told that a change is wanted when
// the new rules may change the membership.
func (m *Machine) Configure(now time.Time, c Config) error {
	m.Advance(now)
	// Refused rules change nothing; the machine goes on by the old ones.
	if err := m.ledger.ApplyConfig(c); err != nil {
		return err
	}
	old := m.config
	m.config = c
	// At once: by the new times a replica may be lost, or stuck, already.
	m.judgeAll(now)
	m.event(EventConfigured, "", "")
	// §3.2: other times need no other quorum. Other bounds may let in who was one too many,
	// or have to leave a member out.
	if old.MinReplicas != c.MinReplicas || old.maxReplicas() != c.maxReplicas() {
		m.change = "new rules"
	}
	m.announceChange(now)
	m.reschedule()
	return nil
}

// Limit bounds the replicas that are not lost, or have a session, to most: one more
// is refused with ErrFull. A member of the last quorum is always let in again. 0: they
// are bounded by MaxKnown alone.
func (m *Machine) Limit(most int) { m.limit = most }

// Beats says how often sessions beat from now on. Before the first call it is the default
// interval.
func (m *Machine) Beats(interval time.Duration) { m.beat = interval }

// ensure finds or makes the record of a replica that says something.
func (m *Machine) ensure(now time.Time, id ReplicaID) (*replica, error) {
	if r := m.replicas[id]; r != nil {
		return r, nil
	}
	if m.limit > 0 && len(m.order) >= m.limit {
		m.forgetLost() // else they would come back beside those who took their places
		there := 0
		for _, r := range m.order {
			// A lost one with a session is only silent, and back with its next beat.
			if !r.lost || r.session {
				there++
			}
		}
		if there >= m.limit {
			return nil, fmt.Errorf("%w: replica %q would be number %d of its job, want at most %d", ErrFull, id, there+1, m.limit)
		}
	}
	return m.recordOf(now, id)
}

// recordOf finds or makes the record of a replica.
func (m *Machine) recordOf(now time.Time, id ReplicaID) (*replica, error) {
	if r := m.replicas[id]; r != nil {
		return r, nil
	}
	if len(m.order) >= MaxKnown {
		m.forgetLost()
	}
	// No lost one is left that could go: each is a member, or holds a session.
	if len(m.order) >= MaxKnown {
		return nil, fmt.Errorf("%w: %d replicas are known", ErrFull, len(m.order))
	}
	r := &replica{id: id, born: now, seen: now, progressAt: now, admitted: now}
	at, _ := slices.BinarySearchFunc(m.order, id, compareReplica)
	m.order = slices.Insert(m.order, at, r)
	m.replicas[id] = r
	m.rescheduleFor(r)
	m.rejudgeSight() // one more is known
	return r, nil
}

// forget drops the records of all whom drop names; it is asked about each once,
// in order. All go at once: one by one they would be n times n.
func (m *Machine) forget(drop func(*replica) bool) {
	m.order = slices.DeleteFunc(m.order, func(r *replica) bool {
		if !drop(r) {
			return false
		}
		m.dropJoin(r)
		m.unsuspect(r)
		delete(m.replicas, r.id)
		return true
	})
}

// forgetLost makes room: whoever is lost, and neither a member nor in a session, goes.
func (m *Machine) forgetLost() {
	m.forget(func(r *replica) bool { return r.lost && !r.member && !r.session })
}

// setLast makes q the last quorum and its members known. Members that this
// machine has never heard of are presumed alive (a new leader that took silence before
// its time for death would put out a whole job).
//
//	stays          records, sessions and joins; links, flaps, refusals, the pace of steps
//	ends           the fall and its reason, what members were told of it or of a change, who
//	               accused whom, and which of the members were not heard of
func (m *Machine) setLast(now time.Time, q *Quorum) {
	for _, r := range m.order {
		// L1: a member that stays keeps the time from which it has been one; by that a short
		// membership is told (flapped).
		if !r.member {
			r.admitted = now
		}
		r.member, r.stale, r.heals = false, false, false
	}
	// Before the members are noted: notePosition asks in which quorum they committed.
	m.last, m.formed = q, now
	plan := planHeals(q)
	for rank, member := range q.Members {
		r, err := m.recordOf(now, member.ReplicaID)
		if err != nil {
			// MaxKnown is above MaxMembers plus the sessions that any server can
			// hold; a member that does not fit is as good as lost.
			continue
		}
		r.member, r.heals = true, plan.heals(rank)
		m.notePosition(r, member.Position)
	}
	m.ledger.HighestID = max(m.ledger.HighestID, q.ID)
	// A new quorum stands, and its members have been told of no change.
	m.fallen, m.fell, m.fallenAt = false, Cause{}, time.Time{}
	m.signed, m.ended = time.Time{}, false
	m.wanted = wanted{}
	m.accused, m.told = nil, announced{}
	m.absent = 0
	m.setSeats()
	// §4.3: what was gathered is this quorum, or an older one.
	if m.gather != nil && !q.ref().less(m.gather.ref) {
		m.gather = nil
	}
	m.reschedule()
}

// notePosition keeps the highest position and id (Q1, C4), and that a replica has committed
// in the last quorum.
func (m *Machine) notePosition(r *replica, p Position) {
	r.position = p
	// Q1: it was issued, if by a ledger that is lost; checkIssued has refused what cannot be.
	m.ledger.HighestID = max(m.ledger.HighestID, p.QuorumID)
	// §6a: it committed there with others, which speaks for it.
	if m.last != nil && p.QuorumID == m.last.ID {
		m.noteCommit(r)
		m.tellCommit(r)
	}
	// C4: kept beside the replicas, for it is to be said from what the position fell when all
	// of its holders are gone.
	if orderPositions(m.ledger.Cluster, p, m.highest) > 0 {
		m.highest = p
	}
}

// lastID is the last quorum's id; 0: there was none.
func (m *Machine) lastID() int64 {
	if m.last == nil {
		return 0
	}
	return m.last.ID
}

// fall ends the last quorum (§3): its window is open from now. A quorum falls once, and the first
// cause stays, unless a later one explains it: most are its consequences.
func (m *Machine) fall(now time.Time, why Cause) {
	if m.fallen && m.explains(why) {
		m.fell = why
	}
	if m.last == nil || m.fallen {
		return
	}
	m.fallen, m.fallenAt, m.fell = true, now, why
	m.sign(now)
	m.reschedule() // who is idle in an open window may be stuck
	m.eventOf(EventFell, "", why)
	for _, member := range m.last.Members {
		// A member that has not taken this answer ignores notices about it; it is told separately.
		if r := m.replicas[member.ReplicaID]; r != nil && !r.lost && r.session && r.stale {
			m.tellFallen(r)
		}
	}
}

// explains says that a cause says more of the fall than what a member saw of it first.
func (m *Machine) explains(why Cause) bool {
	r := m.replicas[why.Replica]
	return r != nil && (r.lost || r.stuck) && !why.Kind.Orderly() &&
		(m.fell.Kind == CauseFailed || m.fell.Kind == CauseAccused && (why.Replica == m.fell.Replica || slices.Contains(m.fell.Witnesses, why.Replica)))
}

// event tells what happened in the quorum that is the last one now.
func (m *Machine) event(kind EventKind, id ReplicaID, text string) {
	m.tell(Event{Kind: kind, ReplicaID: id, Text: text})
}

// eventOf is event for what has a cause, which is its text.
func (m *Machine) eventOf(kind EventKind, id ReplicaID, c Cause) {
	text := c.String()
	if id == c.Replica {
		text = c.Evidence // the event names the replica
	}
	m.tell(Event{Kind: kind, ReplicaID: id, Text: text, Cause: c})
}

func (m *Machine) tell(e Event) {
	e.QuorumID = m.lastID()
	if len(m.events) >= maxEvents {
		m.events = slices.Clone(m.events[maxEvents/2:]) // nobody reads them: keep the newer half
	}
	m.events = append(m.events, e)
}

// notify pushes a notice to those of its receivers that have a session by then: the shell drops
// it for others, which are told when they come (tellFallen, Open).
func (m *Machine) notify(n Notice) {
	// torchft's clients have no stream: answers to their joins are all that they are told.
	if len(n.To) == 0 || m.client == KindTorchft {
		return
	}
	m.notices = append(m.notices, n)
}
