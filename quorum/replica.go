package quorum

import (
	"slices"
	"time"
)

// replica is what the leader knows of one incarnation. All of it is soft: after a change
// of leader it is told again, or found out again.
//
//	heard     a session is open, or beats come: it is known, and counts for nothing (Q5)
//	joined    its join waits: it is live, and can be in the next quorum (Q4)
//	member    of the last quorum: live, whether its join waits or not
//	suspect   one witness is against it: live still, and probed (§6)
//	lost      by two witnesses, or after the grace period: out at the next decision (Q7),
//	          back when it is heard again, forgotten after ForgetAfter
//	stuck, away, draining
//	          not live, so not waited for; but if its join waits, its fact counts (§4.6, §5)
//	evicted   refused for good, by the ledger too
//
// Of its stream:
//
//	session    broken
//	true       false     one is open
//	false      true      the newest one broke, alone: the lighthouse's own sight, one witness (§6)
//	false      false     none was opened here (a new leader, torchft's clients); or it said goodbye,
//	                     or the server that held the stream went with it: no witness
type replica struct {
	id       ReplicaID
	born     time.Time // when it was first heard of
	member   bool      // of the last quorum
	admitted time.Time // since when it has been one
	heals    bool      // it was to heal as the last quorum was formed, and has not committed in it
	session  bool      // a stream is open
	broken   bool      // the stream broke, alone: one witness
	left     bool      // said goodbye on its present stream
	seen     time.Time
	joined   bool        // has joined in this session
	donors   []ReplicaID // that it was told to copy from before it joins; not written again
	called   int64       // the quorum that it was told has fallen, before it joined: see callCopiers
	wants    time.Time   // since when it has wanted to be in a quorum, whether its join waits just now or not; zero: it has been answered
	draining bool
	drainWhy string // why, in its operator's words
	evicted  bool
	replaced ReplicaID // the incarnation that took its place

	// Where it stands, by its own word, and whether it moves (L3).
	ran        int64       // the newest quorum that it said it was in
	stale      bool        // it said so since the last one was formed, and meant an older one
	seat       Seat        // zero: not known, or none
	told       *LastAnswer // its newest answer that was a view; nil: none was
	position   Position
	beat       Beat
	progressAt time.Time // when Progress last changed
	waitsAt    time.Time // since when its beats say that it waits; zero: they do not
	stuck      bool
	away       bool // does not join: its trainer does not move
	stuckWhy   string
	hung       bool // it was stuck in a quorum that stood: a join alone is no sign that its trainer moves
	odd        oddity

	// What speaks against it, and for it (§6).
	suspect  bool
	since    time.Time   // of the suspicion
	accusers []ReplicaID // peers that accuse it in the last quorum, sorted
	probe    uint64      // sent after the suspicion
	watches  []watch     // peers whose progress may clear it
	extended time.Time   // the newest progress of a watched peer
	vouched  bool        // that progress cleared it: only the lighthouse cannot see it
	lost     bool        // known dead
	lostAt   time.Time   //
	gone     Cause       // why it is lost
	join     *waiting    // nil: has not joined
	number   uint64      // the highest join number seen
	answered uint64      // the highest join number answered on its present stream; 0: none
}

// answerRef names an answer; the zero one is before the first.
type answerRef struct{ id, round int64 }

// less is the order of answers (§4.3): a higher id is newer, and of one id a higher round.
func (a answerRef) less(b answerRef) bool {
	return a.id < b.id || a.id == b.id && a.round < b.round
}

func (q *Quorum) ref() answerRef {
	if q == nil {
		return answerRef{}
	}
	return answerRef{q.ID, q.Round}
}

func (l *LastAnswer) ref() answerRef {
	if l == nil {
		return answerRef{}
	}
	return answerRef{l.QuorumID, l.Round}
}

// waiting is a join that waits for its answer. A repeat, or a higher number, of the same replica
// takes its place and keeps its times; consume begins at anew for those that a Form has left.
type waiting struct {
	Join
	at    time.Time // since when it has waited in the present window
	until time.Time // until when an older incarnation may still speak; zero: there is none
	held  bool      // it does not count before then (our own clients)
}

// alive is PROTOCOL §1's live, but for being a member or having joined: known
// of, and not lost, draining, evicted, stuck, or away. Suspects are alive.
func (r *replica) alive() bool { return r.willing() && !r.away }

// willing says that it will take part, be it later: who is away comes back.
func (r *replica) willing() bool {
	return !r.lost && !r.draining && !r.evicted && !r.stuck
}

// live is PROTOCOL §1's word: these are waited for, and counted by the majority (Q5). One
// that merely beats is not: a crowd of idle processes would stop the job.
func (r *replica) live() bool {
	return r.alive() && (r.member || r.joined)
}

// present says that the replica can speak for itself: its join waits, and it is not
// gone. One that drains, is stuck or away can be in no next quorum, but its fact counts
// in the settlement (§5).
func (r *replica) present() bool {
	return r.join != nil && !r.lost && !r.evicted
}

// differs says that by its own word its bytes are not those of the others at its
// position; a replica that is not there has said nothing.
func (r *replica) differs() bool { return r != nil && r.present() && r.join.Member.Differs }

// candidate says that the replica can be in the next quorum (Q4): it is live, has joined,
// and no older incarnation of it may still speak.
func (r *replica) candidate() bool {
	return r.join != nil && r.alive() && !r.join.held
}

// outgoing says that a replica drains, is in the last quorum no more, and waits
// for an answer: it joined while it was still a member. (Unanswered it would serve on.)
func (r *replica) outgoing() bool {
	return r.draining && !r.member && r.present()
}

// dropJoin takes a replica's join back.
func (m *Machine) dropJoin(r *replica) {
	// pending counts joins, so that Wake and MaxPending need not look at all replicas.
	if r.join != nil {
		r.join = nil
		m.pending--
	}
}

// insertID adds an id to a sorted list once.
func insertID(list []ReplicaID, id ReplicaID) []ReplicaID {
	at, found := slices.BinarySearch(list, id)
	if found {
		return list
	}
	return slices.Insert(list, at, id)
}

// others are the members of the last quorum but id that are not gone, sorted: those who are
// told. One whose stream is down is told when it is back (tellFallen).
func (m *Machine) others(id ReplicaID) []ReplicaID {
	if m.last == nil {
		return nil
	}
	var out []ReplicaID
	for _, member := range m.last.Members {
		r := m.replicas[member.ReplicaID]
		if member.ReplicaID != id && r != nil && !r.lost && !r.evicted {
			out = append(out, member.ReplicaID)
		}
	}
	return out
}
