package quorum

// This file is the end of an attempt (PROTOCOL §2.3 to §2.6): the ballot, the vote, and
// what the tally's word means.

// newVote is a vote on the step under way that says no, unless it was promised.
func (r *Rank) newVote() RankVote {
	v := RankVote{Attempt: r.attempt.number, GroupRank: r.cfg.GroupRank, Step: r.position.Step + 1}
	if r.quorum != nil {
		v.QuorumID, v.Round = r.quorum.ID, r.quorum.Round
	}
	// Of a step that it promised and gave up it says what it knows: nothing. (A no would
	// refuse the step for a sibling that keeps the same promise.)
	if f := r.claim.fact; f.Kind == GaveUp && f.about(v.Step, v.QuorumID) {
		v.Vote = VotePrepared
	}
	return v
}

// WithoutBallot is the vote on an attempt for which no ballot can be given; ok is
// false if one can.
//
// The attempt is void if its operations went into a group that is gone, or if it was
// cut before any was issued. The others of this group know nothing of it: they wait
// for the next one, and so does the quorum, which may be on its way still. A vote in
// it would be one on the next attempt, and a ballot would meet their first operation:
// each would say that the other calls something else, and the innocent one was
// refused for it. Otherwise the group is broken, and the vote is a no that ends the
// quorum: without a ballot of this rank nobody can have committed.
func (r *Rank) WithoutBallot() (v RankVote, ok bool) {
	a := &r.attempt
	v = r.newVote()
	switch {
	case a.failed && r.unmet(a.ops > 0 || a.late || a.cut):
		v.Void = true
	case r.quorum == nil || !r.Usable() || a.cut && a.opsHere == 0:
		v.Broken = true
	default:
		return v, false
	}
	return v, true
}

// unmet says that nobody in the group that is configured has met an operation of the
// attempt, so that it may end, where it ends early, as if it had not been. A rank of
// several knows that only of itself: others of the replica may have given ballots.
// Then all ranks must have learned it together.
func (r *Rank) unmet(early bool) bool {
	return r.attempt.opsHere == 0 && (r.attempt.void || r.cfg.GroupWorldSize == 1 && early)
}

// WithoutGroup is the vote on an attempt whose group broke before the ballot.
func (r *Rank) WithoutGroup() RankVote {
	v := r.newVote()
	v.Broken = true
	return v
}

// Missing is the vote on an attempt that ends without a ballot though one could be
// given: the trainer did not wait. Of one that has issued nothing the other
// replicas know nothing, and the quorum stands; of any other they wait for the
// ballot, and the quorum falls. Without this vote the siblings would wait for it,
// and the replica's count of attempts would stand still for ever.
func (r *Rank) Missing() RankVote {
	v := r.newVote()
	v.Void = r.unmet(true)
	v.Broken = !v.Void
	r.attempt.voted = true
	return v
}

// TooFew says that the quorum has fewer participants than this rank's own
// configuration allows.
func (r *Rank) TooFew() bool { return r.assign.Divisor < r.cfg.MinReplicas }

// Ballot is this rank's word on the step under way. Every local check comes before
// it (PROTOCOL §2.3). unhealed says that the rank is behind and stays so: it owes
// the others its part in the exchange, and wants another quorum, which names other
// donors.
func (r *Rank) Ballot(unhealed bool) Ballot {
	fine, state := !r.attempt.failed, r.state(unhealed)
	return Ballot{
		QuorumID: r.quorum.ID, Round: r.quorum.Round, Position: r.position,
		OK:           fine && !unhealed && !r.TooFew(),
		Reduced:      fine,
		Healed:       r.attempt.healed,
		Unhealed:     unhealed,
		ChangeWanted: r.wanted != "" || unhealed,
		State:        state,
		Whole:        state.Valid && r.attempt.rest.whole,
	}
}

// Seal notes that a ballot goes out. One that does not stand in the way of a commit is
// a promise: from now on this rank discards nothing by itself (C2, C5), whatever becomes
// of the exchange. (One that healed beside the step vetoes nothing though it holds that
// too few take part: the others committed, and it refused.)
func (r *Rank) Seal(own Ballot) {
	a := &r.attempt
	a.sealed, a.own, a.vote = true, own, r.newVote()
	a.at, a.size = r.assign.ReplicaRank, r.assign.ReplicaWorldSize
	if own.ok() && !own.Unhealed {
		r.claim.Promise(own.Position.Step+1, own.QuorumID)
	}
}

// Sealed says that the open attempt's ballot is out, or was.
func (r *Rank) Sealed() bool { return r.attempt.sealed }

// Gather makes a list of all members' ballots on the attempt of what the exchange gave,
// by replica rank, and says which is this rank's own. There is a place for each member,
// whatever a backend gives: an exchange that it refused gives no list at all. (One
// without them was taken for a list of all, and replica rank 0 committed by its own
// word.)
//
// Where its own ballot is missing this rank does not know with which digest that went
// out, if it did, and of the others' it believes only a no of their own. (Its ballot
// without a digest differed from theirs, so it refused what they had committed.)
func (r *Rank) Gather(came []*Ballot) (own int, ballots []*Ballot) {
	a := &r.attempt
	ballots = make([]*Ballot, a.size)
	copy(ballots, came)
	if a.lost = ballots[a.at] == nil; a.lost {
		for rank, b := range ballots {
			if b != nil && b.ok() {
				ballots[rank] = nil
			}
		}
		mine := a.own
		ballots[a.at] = &mine
	}
	return a.at, ballots
}

// Judged makes the vote of what the ballots came to, and this rank reduced. broken
// says that the exchange broke its group. What the ballots that came mean, they mean
// all the same: if all of them are there, the others commit.
//
// A rank whose own ballot is not among those that the exchange gave does not know the
// digest with which it went out, if it did. It has given its promise up: as prepared,
// with no digest, it would not agree with the others who are. (Its backend's process
// died in the exchange. a had committed and was lost, c was prepared; two digests that
// differ are the word that nobody can have committed, and the step was discarded.)
func (r *Rank) Judged(v Verdict, digest Digest, broken bool) (RankVote, Verdict) {
	r.ballots++
	r.learn(v)
	a := &r.attempt
	v = r.claim.Judged(v, a.vote.Step, a.own.QuorumID, r.cfg.GroupRank, digest)
	if a.lost {
		r.claim.GiveUp()
	}
	vote := a.vote
	vote.Vote, vote.Digest, vote.Broken = v.Vote, digest, v.Broken || broken || a.lost
	vote.ChangeWanted = v.ChangeWanted
	return vote, v
}

// Voted notes that the vote is with the replica's tally, or on its way there.
func (r *Rank) Voted() { r.attempt.voted = true }

// Resolution is what became of an attempt at one rank.
type Resolution struct {
	Commit  bool // the optimizer may step
	Awaits  bool // only the settlement tells: fall, need the next quorum, wait
	Stands  bool // the quorum goes on
	Wanted  bool // all ask for a change
	Void    bool // the attempt is void by this rank's own vote
	Counts  bool // as a failed commit, which the lighthouse is told
	Sibling bool // this rank voted yes, and another one of the replica did not
}

// Resolve does what the replica's ranks came to, for a rank that voted v. No rank
// decides that alone (C2, C3): else one would apply a step that another discards.
//
// An abort ends also the promise of a rank that was prepared, for it was not the
// whole replica's. Behind is neither: as an abort it would weigh as a refusal, and
// discard what a lost member has committed.
//
// Of a step that the replica decided without this rank's vote only the settlement
// tells, if this rank gave its promise; otherwise it has nothing to wait for.
func (r *Rank) Resolve(t TallyResult, v RankVote) Resolution {
	out := Resolution{Stands: t.Stands, Wanted: t.ChangeWanted, Void: v.Void, Counts: !v.Void}
	switch t.Outcome {
	case TallyCommit:
		r.commit(v.Digest)
		out.Commit, out.Counts = true, false
	case TallyPrepared:
		// §2.6: another member may have seen all ballots, and committed (C5).
		out.Awaits, out.Stands = r.claim.Prepared(), v.Void
	case TallyAbort:
		r.claim.Refuse() // C2: a rank of this replica gave no promise, so none committed
		out.Sibling = v.Vote == VoteYes
	case TallyBehind:
		out.Wanted = true
		out.Counts = out.Counts && (v.Vote != VoteYes || v.Broken)
	}
	if v.Void { // the attempt was another quorum's, or none's: what its ranks want is not of this one
		out.Stands, out.Wanted = true, false
	}
	return out
}

// Settled says what the settlement said of the step that the attempt had promised;
// ok is false while it has said nothing.
func (r *Rank) Settled() (forward, ok bool) {
	return r.settlement == settlementForward, r.settlement != settlementOpen
}

// GiveUp takes the promise back whose settlement this rank does not wait for,
// unless it was settled in this very moment: then ok is true, and that is what
// became of it. An answer that counts on a promise that was given up is not taken
// up, see Take.
func (r *Rank) GiveUp() (forward, ok bool) {
	if forward, ok = r.Settled(); ok {
		return forward, true
	}
	r.claim.GiveUp()
	return false, false
}

// Abandoned is what an attempt leaves behind whose outcome its rank does not wait
// for.
type Abandoned struct {
	Falls bool // others may wait for its operations, or its ballot: the quorum falls
	Votes bool // its vote is missing, see Missing
}

// Abandon gives up the open attempt. A promise stays one: it is given up, which is
// not the same as refused.
func (r *Rank) Abandon() Abandoned {
	a := &r.attempt
	out := Abandoned{Falls: a.opsHere > 0 || a.sealed, Votes: !a.voted}
	r.claim.GiveUp()
	r.Fail()
	a.sealed = true
	return out
}

// Leave closes the open attempt, and says nothing of what became of it.
func (r *Rank) Leave() { r.attempt.open = false }

// Ended is what follows from the end of an attempt.
type Ended struct {
	Step int64 // that was committed, or would have been
	Asks bool  // all members ask for another quorum, at once, see Ask
}

// End closes the attempt.
//
// All members learn from the same ballots that a change is wanted, and an ask is
// answered only when all have asked (§3.2): none waits until its trainer comes round
// to the next step, which may take minutes. Where the quorum falls nobody asks.
func (r *Rank) End(v Resolution) Ended {
	e := Ended{Step: r.position.Step}
	if !v.Commit {
		e.Step++
		r.discarded++
		if v.Counts {
			r.failures++
		}
	}
	r.attempt.open = false
	// Muted, it asks for nothing until the lighthouse is heard again: see Unanswered.
	if !v.Commit && !r.muted || v.Commit && e.Step == r.assign.Max.Step+1 {
		r.raise() // the first commit in this quorum, or none
	}
	e.Asks = v.Stands && (v.Wanted || v.Commit && r.cfg.EveryStep)
	return e
}
