package quorum

import "slices"

// This file and the ones beside it (member_*.go) are the member's half of the
// protocol: what one rank holds, hears, says and does ([Rank]) and may claim of the
// step under way ([Claim]), what a replica makes of its ranks' reports
// ([MergeReports]) and of their votes ([Polls]). Managers, the simulator and the explorer
// drive these; none has rules of its own.

// RankReport is what one rank of a replica tells the replica's server when it
// needs another quorum. The replica joins once every rank has reported.
type RankReport struct {
	GroupRank          int
	Kind               JoinKind // a fall, or an ask
	Position           Position // where this rank stands: the ranks of a torn replica differ
	HaveQuorumID       int64    // the newest answer that the rank has had
	HaveRound          int64    // its round
	Fact               Fact     // this rank's part: at most one digest, its own
	LastDigest         Digest   // of the last committed step
	CheckpointMetadata string   // what its checkpoint transport says of itself, for those that heal from it
	ShrinkOnly         bool     // one rank's word is the replica's
	InitSync           bool     // every rank must say so
	Sync               bool     // every rank must say so
	FixedWorldSize     int      // the same in all ranks
	CommitFailures     int64
	Accusations        []Accusation
	Differs            bool // the ballots said that this rank's bytes are not the others'
	Fall               Fall

	Attempt  uint64 // counts the rank's ShouldCommits, see Polls
	Void     bool   // this rank gives no ballot in Attempt, which failed, or whose operations went with the quorum that fell: it is void
	Withdraw bool   // takes the rank's report back
	Away     bool   // with Withdraw: until its trainer moves, see TrainerAway
}

// Has says that the rank has had answer q, or a newer one: it is not told q again.
func (r *RankReport) Has(q *Quorum) bool {
	return !answerRef{r.HaveQuorumID, r.HaveRound}.less(q.ref())
}

// MergeReports makes one join of the reports of all of a replica's ranks, by
// group rank. self is the replica as it describes itself: ids, addresses and
// group world size; the rest comes from the reports.
//
// What one rank says of shrinking is the replica's word, and so is one rank's fall: its
// group is broken (else its siblings would ask, keep their groups, and wait in
// them for a rank that is elsewhere). What all must agree to, every rank must
// say: to take another's state at the start, and to heal before the collectives.
//
// Ranks at different positions tear the replica: it heals in all of them, and
// gives nothing to anybody (were it said to be at one of the positions, others
// would heal from it, rank by rank, into a state that never was).
//
// A replica differs from the others if one of its ranks does: it heals in all of them,
// each of which has only to compare. (Were it to give its other ranks' state, a
// newcomer would take parts of two replicas that are not one state.)
//
// Errors: ErrInvalid if the ranks were started with different FixedWorldSize.
func MergeReports(self Member, reports []RankReport) (Join, error) {
	first := reports[0]
	j := Join{
		Member: self, Client: KindSkerry, Kind: first.Kind, Fact: first.Fact,
		LastDigests: make([]Digest, len(reports)),
	}
	j.Member.Position, j.Member.FixedWorldSize = first.Position, first.FixedWorldSize
	j.Member.InitSync, j.Member.Sync = true, true
	j.Fact.Digests = make([]Digest, len(reports))
	for rank, r := range reports {
		if r.FixedWorldSize != first.FixedWorldSize {
			return j, invalidf("group ranks 0 and %d: FixedWorldSize = %d and %d, want the same",
				rank, first.FixedWorldSize, r.FixedWorldSize)
		}
		m := &j.Member
		m.ShrinkOnly = m.ShrinkOnly || r.ShrinkOnly
		m.InitSync = m.InitSync && r.InitSync
		m.Sync = m.Sync && r.Sync
		m.CommitFailures = max(m.CommitFailures, r.CommitFailures)
		if r.Position != first.Position {
			m.Position, m.Torn = Position{}, true
		}
		m.Differs = m.Differs || r.Differs
		if r.Kind == JoinFall {
			j.Kind, j.Fall.Void = JoinFall, j.Fall.Void || r.Void
			if r.Fall.Ago >= j.Fall.Ago && (r.Fall.Why != "" || j.Fall.Why == "") { // who found it out first knows why
				j.Fall.Why, j.Fall.Ago = r.Fall.Why, r.Fall.Ago
			}
		}
		j.LastDigests[rank] = r.LastDigest
		j.Fact = mergeFact(j.Fact, r.Fact, rank)
		j.Accusations = append(j.Accusations, r.Accusations...)
	}
	// Digests are those of a promise or a commit; of a step that was given up or refused they
	// would be compared with none, and at step 0 there is no last one.
	if j.Fact.Kind != Committed && j.Fact.Kind != Prepared {
		j.Fact.Digests = nil
	}
	if j.Member.Position.Step == 0 {
		j.LastDigests = nil
	}
	j.Accusations = j.Accusations[:min(len(j.Accusations), MaxAccusations)]
	return j, nil
}

// mergeFact adds one rank's part. A replica was prepared only if all its ranks
// were, for one and the same step (C2): else a settlement would count a step as
// promised by a replica one of whose ranks may have discarded it. Ranks whose
// facts are about different steps promised nothing together, and refuse nothing
// either.
//
//	rank 0          rank 1          the replica
//	prepared 5@3    prepared 5@3    prepared 5@3, with both digests
//	prepared 5@3    gave-up 5@3     gave-up: it cannot commit, and others may have
//	prepared 5@3    refused 5@3     refused: without rank 1's ok ballot there was no commit
//	prepared 5@3    prepared 6@3    gave-up, and torn: its ranks are at different positions
func mergeFact(all, one Fact, rank int) Fact {
	// Rank 0's is the one with which all others are compared.
	if !one.about(all.Step, all.QuorumID) {
		all.Kind = weaker(all.Kind, GaveUp)
	}
	all.Kind = weaker(all.Kind, one.Kind)
	if len(one.Digests) == 1 {
		all.Digests[rank] = one.Digests[0]
	}
	return all
}

// weaker is the weaker of two claims. Refused is the weakest, for one rank that never gave
// its ok ballot is enough to know that there was no commit; then gave-up, which knows
// nothing.
func weaker(a, b FactKind) FactKind {
	order := []FactKind{Committed, Prepared, NoFact, GaveUp, Refused}
	return order[max(slices.Index(order, a), slices.Index(order, b))]
}
