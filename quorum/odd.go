package quorum

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// This file keeps L1 where replicas are alive and misbehave: one that calls other
// collectives than the others (a late-comer of another version), or whose heal
// fails, breaks each quorum that it is in, and one whose state differs again whenever it
// has healed breaks every few. They or the others say so with an accusation
// that is no witness of a death. At its second time it is refused, by name, for a
// while that doubles; it comes back by itself. Until it is known who it is, and
// where that is never known, a pause that grows lies between quorums that commit
// nothing.

// AccusationKind says what a replica is accused of.
type AccusationKind uint8

// The kinds of accusation.
const (
	AccusedLink     AccusationKind = iota // its link broke first: a witness of its death
	AccusedOdd                            // it called something else in a collective
	AccusedUnhealed                       // by itself: its heal failed
	AccusedDiffers                        // by itself: its state was not that of the others (C1 at rest)
)

// ofItself says that a replica accuses itself of such a thing.
func (k AccusationKind) ofItself() bool { return k == AccusedUnhealed || k == AccusedDiffers }

const (
	// RefusedFirst is how long a replica is refused that was odd, or did not heal,
	// in two quorums; it doubles each time, up to RefusedMax.
	RefusedFirst = 2 * time.Second
	RefusedMax   = 10 * time.Minute
	// refusedForgotten is how long after that its name is remembered.
	refusedForgotten = 30 * time.Minute
	// maxRefusals bounds the names that are remembered; the oldest goes. maxDiffered
	// bounds the others that one replica is known to differ from: more tell nothing new.
	maxRefusals = 256
	maxDiffered = 16

	// PauseFirst is the pause before the second quorum in a row that follows one
	// which committed nothing; it doubles with each further one, up to PauseMax.
	// The first is free.
	PauseFirst = 250 * time.Millisecond
	PauseMax   = 10 * time.Second
)

// refusal is what is remembered of a name: a replica that is started again after
// each time is the same one.
type refusal struct {
	name    string    // of all its incarnations, see replicaName
	broke   int       // quorums that it broke since it last committed
	broken  int64     // the newest of them
	differs bool      // its state differed once
	times   int       // how often it was refused
	until   time.Time // refused before this; as begun: now, which refuses nothing
	why     string    // for people
}

// oddity is what is known of one replica and the collectives that it calls.
type oddity struct {
	proven   bool        // it was in a quorum that committed
	differed []ReplicaID // who called something else, since it last committed; sorted
	broken   int64       // the newest quorum in which somebody did
}

// differFrom notes that another replica called something else in a quorum; false
// if that was known.
func (o *oddity) differFrom(id ReplicaID, quorumID int64) bool {
	// It is news the first time in a quorum, also where who differs was known from an earlier one.
	known := o.broken == quorumID
	o.broken = quorumID
	if _, found := slices.BinarySearch(o.differed, id); found || len(o.differed) >= maxDiffered {
		return !known
	}
	o.differed = insertID(o.differed, id)
	return true
}

// complain takes an accusation that says nothing about a death (§6a). One of a replica
// against itself counts at once, once in a quorum; of one against another it has to be
// found which of the two is odd.
func (m *Machine) complain(now time.Time, a Accusation) {
	m.refusals = slices.DeleteFunc(m.refusals, func(f refusal) bool { return now.Sub(f.until) >= refusedForgotten })
	if a.Kind == AccusedOdd {
		m.complainOdd(now, a)
		return
	}
	culprit := m.replicas[a.Against]
	f := m.remember(now, culprit)
	// It has counted in this quorum. If it did as the odd one, it stays when that is taken back.
	if f.broken == a.QuorumID {
		m.trial.own(now, f.name, a)
		return
	}
	m.note(a)
	f.broke, f.broken = f.broke+1, a.QuorumID
	switch {
	case a.Kind == AccusedDiffers && !f.differs:
		// §2.7: it heals, and that may be all, a flipped bit. It is remembered, for it may be
		// of those that differ again: commits in between do not speak for it, each time
		// costs the others a discarded step.
		f.differs = true
	case a.Kind == AccusedDiffers, f.times > 0, f.broke >= 2:
		// Once is bad luck, or another one's fault; from the second time on it is a rule, and
		// after each hold-off one quorum tells whether it still holds.
		m.refuse(now, culprit, f, a)
	}
}

// note tells of an accusation, and keeps it for the history.
func (m *Machine) note(a Accusation) {
	m.event(EventAccused, a.Against, fmt.Sprintf("by %s: %s", a.By, a.Evidence))
	if len(m.accused) < MaxHistory {
		m.accused = append(m.accused, a)
	}
}

// oddOne finds who of two is the odd one: who has less to show; then whom more
// others differ from, since the last commit; of equals the one that was refused
// before, then the newcomer, then the larger id.
//
// (Were numbers to go first, a crowd of newcomers of another version would be in
// the right against those who train, again and again, and these be refused. Merit is the
// job's own: what it has committed, it committed with these collectives.)
func (m *Machine) oddOne(a, b *replica) *replica {
	times := func(r *replica) int {
		if f := m.refusalOf(r.id); f != nil {
			return f.times
		}
		return 0
	}
	if cmp.Or(cmp.Compare(m.merit(b), m.merit(a)),
		cmp.Compare(len(a.odd.differed), len(b.odd.differed)), cmp.Compare(times(a), times(b)),
		a.admitted.Compare(b.admitted), cmp.Compare(a.id, b.id)) > 0 {
		return a
	}
	return b
}

// merit is what a member has to show: 2 if the last quorum began with it as the
// only one at the highest position, and nobody else has committed in it (without it
// nobody could go on, Q10); 1 if it began there with others, or has committed with
// others; 0 for a newcomer. What beats say of positions is not asked: of two that
// commit together, one is always heard first.
//
//	a began quorum 9 at 100@8, with newcomers b and c  a has 2, b and c have 0
//	then c has committed a step in 9                   a and c have 1, and b, when it is heard
//	a and b began quorum 9 at 100@8                    both have 1
//	all began it at step 0                             each has 0 until it has committed
func (m *Machine) merit(r *replica) int {
	level := 0
	if r.odd.proven {
		level = 1
	}
	top := highest(m.last.Cluster, m.last.Members)
	rank, _ := memberRank(m.last.Members, r.id)
	// At step 0 nothing was committed that could speak for a member.
	if top.Step == 0 || m.last.Members[rank].Position != top {
		return level
	}
	for i, o := range m.last.Members {
		p := m.replicas[o.ReplicaID]
		if i != rank && (o.Position == top || p != nil && p.position.QuorumID == m.last.ID) {
			return 1
		}
	}
	return 2
}

func compareRefusal(f refusal, name string) int { return strings.Compare(f.name, name) }

// refusalOf is what is remembered of a replica's name, nil if nothing.
func (m *Machine) refusalOf(id ReplicaID) *refusal {
	if len(m.refusals) == 0 {
		return nil
	}
	return m.refusalNamed(replicaName(id))
}

func (m *Machine) refusalNamed(name string) *refusal {
	if at, found := slices.BinarySearchFunc(m.refusals, name, compareRefusal); found {
		return &m.refusals[at]
	}
	return nil
}

// remember finds what is remembered of a replica's name, or begins it.
func (m *Machine) remember(now time.Time, r *replica) *refusal {
	if f := m.refusalOf(r.id); f != nil {
		return f
	}
	// The one that was over first: of those that are refused now the shortest is left.
	if len(m.refusals) >= maxRefusals {
		oldest := slices.MinFunc(m.refusals, func(a, b refusal) int {
			return cmp.Or(a.until.Compare(b.until), strings.Compare(a.name, b.name))
		})
		m.refusals = slices.DeleteFunc(m.refusals, func(f refusal) bool { return f.name == oldest.name })
	}
	name := replicaName(r.id)
	at, _ := slices.BinarySearchFunc(m.refusals, name, compareRefusal)
	m.refusals = slices.Insert(m.refusals, at, refusal{name: name, until: now})
	return &m.refusals[at]
}

// refuse keeps a replica out for a while that doubles (L1): what it costs the others falls
// off, and one that was mended comes back by itself.
//
//	odd in a quorum                 nothing yet: it may be an accident of a start
//	odd in the next one             refused for 2 s
//	let in, and odd                 refused for 4 s, at once; then 8 s, up to 10 min
//	let in, and commits with others let in from now on
//	odd again within half an hour   refused at once, for twice as long as the last time
func (m *Machine) refuse(now time.Time, r *replica, f *refusal, a Accusation) {
	// It is refused already: others say it of the same quorum, or it was let in all the same.
	if now.Before(f.until) {
		return
	}
	hold := doubled(RefusedFirst, RefusedMax, f.times)
	f.times++
	f.until = now.Add(hold)
	switch a.Kind {
	case AccusedUnhealed:
		f.why = "does not heal"
	case AccusedDiffers:
		f.why = "comes to another state than the others, again after a heal"
	default:
		f.why = "calls other collectives than the others"
	}
	// A trial judges anew with each word, and would tell the same each time.
	if a.Kind != AccusedOdd || m.trial.tells(f.name) {
		m.event(EventRefused, r.id, fmt.Sprintf("%s; not let in for %v: %s", f.why, hold, a.Evidence))
	}
	m.soon(f.until)
}

// refused says that a replica is kept out now.
func (m *Machine) refused(now time.Time, r *replica) bool {
	f := m.refusalOf(r.id)
	return f != nil && now.Before(f.until)
}

// behaves says that a replica is a member of the last quorum, and that what it is
// refused for was said of an earlier one. It was let in all the same, as the holder of
// the highest position or because too few were left, and while that quorum stands it
// is not put out again (L3).
func (m *Machine) behaves(r *replica) bool {
	f := m.refusalOf(r.id)
	return r.member && f != nil && f.broken != m.last.ID
}

// noteCommit takes in that a replica has committed in the last quorum. It agreed with
// the others there, and that speaks for it, but not against what was said of it
// later in the same quorum, nor of its state, which no commit compares. It is refused
// no more. Who is no member has not committed there, whatever its position says: it
// began at one of a checkpoint that the members wrote.
func (m *Machine) noteCommit(r *replica) {
	if !r.member {
		return
	}
	r.odd.proven = true
	if r.odd.broken != m.last.ID { // it called what the others of this quorum called
		r.odd.differed = nil
	}
	// §6a: a commit with others ends the row of quorums that it broke.
	if f := m.refusalOf(r.id); f != nil && f.broken != m.last.ID {
		f.broke = 0
		if !f.differs && len(m.last.Members) > 1 && m.now.Before(f.until) {
			f.until = m.now
		}
	}
}

// committedNothing says that the last quorum committed nothing, as far as what follows it
// shows, and that q is of the same members: nothing is to be gained by haste. One
// that a death ended, or that is followed by another membership, is another thing.
func (m *Machine) committedNothing(q *Quorum) bool {
	return m.last != nil && m.fallen && sameMembers(q.Members, m.last.Members) &&
		highest(q.Cluster, q.Members).Step <= highest(m.last.Cluster, m.last.Members).Step
}

// pauseAfter is how long after its fall the n-th quorum in a row that committed
// nothing is followed (§6a): 0, 250 ms, 500 ms, 1 s, 2 s, 4 s, 8 s, and 10 s from then on.
func pauseAfter(n int) time.Duration {
	if n < 2 {
		return 0 // most failures are over with the quorum: recovery is not delayed
	}
	return doubled(PauseFirst, PauseMax, n-2)
}

// pausedUntil is when the next quorum may follow one that committed nothing.
func (m *Machine) pausedUntil() time.Time { return m.fallenAt.Add(pauseAfter(m.barren + 1)) }
