package quorum

import (
	"fmt"
	"time"
)

// Status is what pages show of a job. All of it is a copy but Last, which
// nobody changes.
type Status struct {
	Cluster    string
	Job        string
	Client     ClientKind
	Config     Config
	HighestID  int64   // the next new id is above it (Q1)
	Last       *Quorum // nil: there was none
	Stands     bool    // the last quorum stands
	State      JobState
	Since      time.Time     // since when the state has been so, as far as this leader knows
	Fell       Cause         // why the last quorum fell; of no kind: it stands
	Wanted     string        // why members were told that a change is wanted
	StepTime   time.Duration // the median of late; 0: not known yet
	StuckAfter time.Duration // in force: at least ten of these; 0: never
	Ready      bool
	Reason     Reason // why the next quorum can be formed, or why not yet
	Replicas   []ReplicaStatus
}

// JobState is a job's state in one word.
type JobState string

// The states of a job.
const (
	JobTraining  JobState = "training"  // its quorum stands
	JobReforming JobState = "reforming" // its quorum fell, and the join timeout has not passed
	JobWaiting   JobState = "waiting"   // replicas are here, and no quorum: Reason says why
	JobFinished  JobState = "finished"  // all members of the last quorum went in good order, and none is here
	JobIdle      JobState = "idle"      // no replica is here
)

// InUse says that a replica is there that is not known to be gone.
func (s JobState) InUse() bool { return s != JobFinished && s != JobIdle }

// ReplicaState is a replica's state in one word.
type ReplicaState string

// The states of a replica, the gravest first. Those from "on probation" to "joined" are of a
// join that waits; those before them are worse news, whether a join waits or not.
const (
	StateEvicted   ReplicaState = "evicted"
	StateLost      ReplicaState = "lost"
	StateDrained   ReplicaState = "drained" // it was told to go, and went
	StateLeft      ReplicaState = "left"    // it went by its own word
	StateStuck     ReplicaState = "stuck"
	StateAway      ReplicaState = "away"
	StateDraining  ReplicaState = "draining"
	StateSuspect   ReplicaState = "suspect"
	StateProbation ReplicaState = "on probation" // joined, and is not let in yet: it was lost too often
	StateApart     ReplicaState = "kept apart"   // joined, and is not let in: it and a member do not reach each other
	StateRefused   ReplicaState = "refused"      // joined, and is not let in yet: it broke quorum after quorum
	StateHeld      ReplicaState = "held"         // waits for an older incarnation to fall silent
	StateJoined    ReplicaState = "joined"
	StateHealing   ReplicaState = "healing" // a member, and has not committed since it was to heal
	StateLive      ReplicaState = "live"    // member of the last quorum, or has joined in this session
	StateHeard     ReplicaState = "heard"
)

// ReplicaStatus is what pages show of one replica.
type ReplicaStatus struct {
	ReplicaID   ReplicaID
	State       ReplicaState
	Why         string // of suspect, lost, stuck, away, kept apart, refused and on probation
	Gone        Cause  // of lost, left, drained and evicted; of no kind: it is not gone
	Member      bool   // of the last quorum, whether that stands or not
	Participant bool   // in the last quorum: its gradients count
	Session     bool   // its stream is open; of torchft's clients never
	Heals       bool   // in the last quorum, as that was formed: by now it may have healed
	JoinKind    JoinKind
	JoinNumber  uint64        // the highest seen, answered or not
	Waiting     time.Duration // in the present window; 0: no join waits
	Silence     time.Duration // since it was last heard, less what the lighthouse slept through
	Idle        time.Duration // since its trainer last moved, likewise (L3)
	Position    Position
	Beat        Beat
	Address     string // of its manager, by its join, or as the last quorum has it
}

// Status reads everything that pages show, replicas sorted by id. It only reads: the reason
// that it shows is the decision's own, of this moment.
func (m *Machine) Status(now time.Time) Status {
	// On a copy for which time has passed: a page that is asked for decides nothing.
	m = m.advancedTo(now)
	d := m.Decide(now)
	s := Status{
		Cluster: m.ledger.Cluster, Job: m.ledger.Job, Client: m.client, Config: m.config,
		HighestID: m.ledger.HighestID, Last: m.last, Stands: m.last != nil && !m.fallen, Fell: m.fell,
		Ready: d.Ready, Reason: d.Reason, StepTime: m.pace.Middle(), StuckAfter: m.stuckAfter(),
	}
	if m.wanted.pushed {
		s.Wanted = m.wanted.reason
	}
	s.State, s.Since = m.jobState(now)
	// One plan for all: made anew for each member it would be n times n.
	var plan healPlan
	if m.last != nil {
		plan = planHeals(m.last)
	}
	// In the order of ids, the members' replica ranks too: two pages differ only by what changed.
	for _, r := range m.order {
		s.Replicas = append(s.Replicas, m.replicaStatus(now, r, plan))
	}
	return s
}

// jobState is what a job does, and since when. Pages that show a job which has ended as one that
// failed are not looked at when one does.
func (m *Machine) jobState(now time.Time) (JobState, time.Time) {
	here, orderly, went, last := false, true, false, time.Time{}
	for _, r := range m.order {
		here = here || !r.lost && !r.evicted
		orderly = orderly && (!r.member || r.gone.Kind.Orderly())
		went = went || r.member && (r.gone.Kind == CauseLeft || r.gone.Kind == CauseDrained)
		last = later(last, r.lostAt)
	}
	switch {
	case !here && orderly && went:
		return JobFinished, last
	case !here:
		return JobIdle, later(last, m.opened)
	case m.last == nil:
		return JobWaiting, m.opened
	case !m.fallen:
		return JobTraining, m.formed
	case now.Sub(m.fallenAt) < m.config.JoinTimeout:
		return JobReforming, m.fallenAt
	}
	return JobWaiting, m.fallenAt
}

func (m *Machine) replicaStatus(now time.Time, r *replica, plan healPlan) ReplicaStatus {
	s := ReplicaStatus{
		ReplicaID: r.id, State: m.state(r), Member: r.member, Session: r.session, JoinNumber: r.number,
		Silence: now.Sub(r.seen), Idle: now.Sub(r.progressAt), Position: r.position, Beat: r.beat,
	}
	switch s.State {
	case StateEvicted, StateLost, StateDrained, StateLeft:
		s.Why, s.Gone = r.gone.Evidence, r.gone
	case StateStuck, StateAway, StateApart:
		s.Why = m.causeOf(r).Evidence
	case StateRefused:
		f := m.refusalOf(r.id)
		s.Why = fmt.Sprintf("%s; not let in for another %v", f.why, f.until.Sub(now))
	case StateProbation:
		s.Why = m.flapOf(r.id).why(now)
	// As judge has it: a suspect may be one by its stream, its silence, its peers, or all.
	case StateSuspect:
		s.Why = m.evidence(r, now.Sub(r.seen) >= m.config.SuspectAfter)
	}
	if r.join != nil {
		s.JoinKind, s.Waiting, s.Address = r.join.Kind, now.Sub(r.join.at), r.join.Member.Address
	}
	if !r.member {
		return s
	}
	// What it says of itself as a member comes last: the address that others were told of it is
	// that of the quorum, though its join may bring another one.
	if rank, found := memberRank(m.last.Members, r.id); found {
		s.Heals = plan.heals(rank)
		s.Address = m.last.Members[rank].Address
		for _, id := range m.last.Participants {
			s.Participant = s.Participant || id == r.id
		}
	}
	return s
}

// state is the gravest thing that is so of a replica.
func (m *Machine) state(r *replica) ReplicaState {
	switch {
	// In this order the first word is the one that says what has to be done: nothing brings an
	// evicted replica back, a lost one comes back by itself, a stuck one when its trainer
	// moves.
	// An evicted one is lost as well: evict makes it so. In the other order none would be shown
	// as evicted, and an operator would wait for it to come back.
	case r.evicted:
		return StateEvicted
	case r.lost && r.gone.Kind.Orderly():
		return ReplicaState(r.gone.Kind.String())
	case r.lost:
		return StateLost
	// L3: it may be away as well. An away one is waited for where it alone knows something
	// (notesAway), a stuck one is not.
	case r.stuck:
		return StateStuck
	case r.away:
		return StateAway
	// §5: a member that drains may still give its state, and its join may wait for its last answer.
	case r.draining:
		return StateDraining
	// §6: one that its peers step with is out of the lighthouse's sight alone.
	case r.suspect && !r.vouched:
		return StateSuspect
	// From here on it has joined, and waits: for its name, for a time, for a link, or for the
	// others.
	case r.join != nil && r.join.held:
		return StateHeld
	case r.join != nil && m.refused(m.now, r):
		return StateRefused
	// L1: also shown where no quorum stands, though it would be let in then.
	case r.join != nil && !r.member && m.onProbation(m.now, r):
		return StateProbation
	case r.join != nil && m.cutOff(m.now, r) != nil:
		return StateApart
	case r.join != nil:
		return StateJoined
	// A member that trains; or one that has joined in this session, and has no join waiting: it
	// took that back, or a later quorum left it out (§1).
	case r.live() && r.heals:
		return StateHealing
	case r.live():
		return StateLive
	}
	// §1: it beats, or holds a session, and is no member: no window waits for it, and it counts for
	// no majority.
	return StateHeard
}
