package quorum

import "slices"

// Claim is what one rank says of the step under way: the life of its fact.
//
//	            Promise              Judged no, Refuse
//	nothing ───────────▶ prepared ─────────────────────▶ nothing (weighs as refused)
//	   │                    │ GiveUp (deadline, ctx)
//	   │ Judged behind      ├──────────▶ gave-up
//	   └──▶ gave-up         │ Settle
//	                        └──────────▶ committed, or discarded: nothing
//
// After Promise a rank discards nothing by itself (PROTOCOL §2.4). Its zero value
// is a rank with nothing under way. A Claim is plain data, owned by one goroutine.
type Claim struct {
	fact Fact

	// told is a member's word that it committed the step under way.
	told Fact
}

// Promise notes that this rank gives an ok ballot for a step of a quorum.
func (c *Claim) Promise(step, quorumID int64) {
	c.fact = Fact{Kind: Prepared, Step: step, QuorumID: quorumID, Digests: make([]Digest, 1)}
}

// Judged takes in what the ballots came to, and what this rank reduced. It
// returns the vote: a member's word that it committed the very step with the same
// bytes makes up for ballots that are missing.
//
// A no ends the promise, for nobody can have committed beside it. A rank that
// could not heal says gave-up, not refused: as a refusal it would discard a step
// that a lost member has committed.
func (c *Claim) Judged(v Verdict, step, quorumID int64, groupRank int, digest Digest) Verdict {
	// The digest of what was reduced is known only behind the ballot.
	if c.fact.Kind == Prepared {
		c.fact.Digests[0] = digest
	}
	// §3.1: an all-yes, seen by another; only the same digest is the same step (C1).
	if v.Vote == VotePrepared && c.toldOf(step, quorumID, groupRank, digest) {
		v.Vote, v.Reason = VoteYes, "a member committed it"
	}
	switch v.Vote {
	case VoteNo:
		c.Refuse()
	case VoteBehind:
		c.fact = Fact{Kind: GaveUp, Step: step, QuorumID: quorumID}
	}
	return v
}

// Tell notes a member's word that it committed the step under way.
func (c *Claim) Tell(f Fact) {
	if f.Kind == Committed {
		c.told = f
	}
}

func (c *Claim) toldOf(step, quorumID int64, groupRank int, digest Digest) bool {
	f := c.told
	return f.Kind == Committed && f.about(step, quorumID) &&
		groupRank < len(f.Digests) && f.Digests[groupRank] == digest
}

// Refuse notes that the replica discards the step, whatever this rank had
// promised: the promise was not the whole replica's. One that was given up before is
// another matter: the attempt at which it was made is over, and this one says nothing
// of what became of it. (Its replica had no quorum in the next attempt, which was
// discarded; then it spoke against a step that a lost member had committed.)
func (c *Claim) Refuse() {
	if c.fact.Kind != GaveUp {
		c.fact = Fact{}
	}
}

// GiveUp takes a promise back whose outcome this rank does not wait for (§2.6). It is
// not a refusal: others may have committed (execution 3 of §10).
func (c *Claim) GiveUp() {
	if c.fact.Kind == Prepared {
		c.fact.Kind, c.fact.Digests = GaveUp, nil
	}
}

// Clear begins anew: the step was committed, or another quorum runs.
func (c *Claim) Clear() { *c = Claim{} }

// Prepared says that a promise is out whose outcome is not known.
func (c *Claim) Prepared() bool { return c.fact.Kind == Prepared }

// Fact is this rank's word on the step under way of the quorum that it was in, as
// a fall join carries it. A rank that says nothing never gave an ok ballot, so
// nobody can have committed the step: it refuses (else each step cut short in a
// forward pass would wait for members that cannot know more).
func (c *Claim) Fact(at Position, quorumID int64) Fact {
	if c.fact.Kind != NoFact {
		f := c.fact
		f.Digests = slices.Clone(f.Digests)
		return f
	}
	return Fact{Kind: Refused, Step: at.Step + 1, QuorumID: quorumID}
}

// Settled is what an answer says of a step that was under way.
type Settled struct {
	Known   bool // a promise was out, and this is what became of it
	Forward bool // commit it
	At      Position
	Digest  Digest
}

// Settle learns what became of a promised step from the position that the answer
// gives this replica: it was rolled forward if and only if that is the position
// which the step leads to (C5, C6). cluster is that of the quorum it ran in.
func (c *Claim) Settle(answer Position, cluster string) Settled {
	if c.fact.Kind != Prepared {
		return Settled{}
	}
	to := Position{Cluster: cluster, Step: c.fact.Step, QuorumID: c.fact.QuorumID}
	s := Settled{Known: true, Forward: answer == to, At: to, Digest: c.fact.Digests[0]}
	c.Clear()
	return s
}

// SettleOutside is Settle for an answer in which this replica is no member: it has
// drained, and only the settlement itself tells what became of the step.
func (c *Claim) SettleOutside(s Settlement, cluster string, groupRank int) Settled {
	f := c.fact
	forward := s.Outcome == Forward && s.about(f.Step, f.QuorumID) &&
		groupRank < len(s.Digests) && len(f.Digests) == 1 && s.Digests[groupRank] == f.Digests[0]
	if !forward {
		return c.Settle(Position{}, cluster)
	}
	return c.Settle(Position{Cluster: cluster, Step: f.Step, QuorumID: f.QuorumID}, cluster)
}
