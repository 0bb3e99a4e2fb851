package quorum

import "errors"

// Taken is what an answer came to.
type Taken struct {
	Settled Settled // what became of the step that was promised
	Fresh   bool    // another group is needed
	Old     *Quorum // the one before, nil: none
	Void    bool    // the open attempt is void, and has failed
	Shared  *Shares // that the open attempt was told, and which are others now: it has failed
	// Wrong says that the lighthouse counts on a state that this rank does not
	// hold: the answer is not used, and the next join is a fall.
	Wrong bool
	Fell  bool     // this rank fell from that quorum: the answer is not used either
	Left  bool     // this replica is no member: it has drained
	Early []Notice // that came before the answer, to be heard now
}

// Take takes up an answer for a replica: it settles the step that was under way,
// and makes the answer the standing quorum. voidAttempt is the newest one that is void for
// the replica; 0: none. It need not be the one that the rank's report names:
// that may have been made in an attempt before it, and have waited since. (Its sibling
// lost the operations of the next one. It was told of its own, gave its ballot in the
// next one, and was one attempt apart from its sibling.)
//
// Whoever rolled a step forward, or discarded it, did so by what the answer says of
// its position (C5, C6). A rank that then stands elsewhere, and is not to heal, had
// given up a promise on which the lighthouse still counts: it must not take part,
// or its quorum would step from two states.
//
//	it is no member                               left out: it has drained
//	the id is its own, and it fell from that      not used: it joins again (§4.4)
//	it promised, and is put at that step          the step is committed (Settled)
//	it promised, and is not put there             the step is discarded
//	it is put where it is not, and not to heal    not used: it joins again, by a fall (Wrong)
//
// Errors: those of Assign. The quorum does not stand then; with ErrNotMember, which
// only a replica that has drained gets, the settlement told what became of its step.
func (r *Rank) Take(as ReplicaID, q *Quorum, voidAttempt uint64) (Taken, error) {
	a, err := Assign(q, as, r.cfg.GroupRank)
	// Seen, whatever becomes of it: its replica's server does not give it to this rank again (Has).
	r.haveID, r.haveRound = q.ID, q.Round
	if err != nil {
		return r.leftOut(q, err)
	}
	t := Taken{Old: r.quorum, Void: r.Trying(voidAttempt) || r.overtaken()}
	if t.Void {
		r.attempt.void, r.attempt.failed = true, true
	}
	r.voidAttempt = voidAttempt
	t.Fresh = !r.InEpoch(q.Cluster, q.ID)
	// §4.4: a rank that was told of the fall before the answer does not use it. (Its group of
	// that id is broken, and the others have left theirs, or will.)
	if t.Fell = !t.Fresh && !r.standing; t.Fell {
		return t, nil
	}
	t.Settled = r.settled(r.claim.Settle(a.Position, r.cluster()))
	r.quorum, r.assign = q, &a
	r.standing, r.answered, r.behind, r.outside = true, true, a.Heal, false
	r.muted = false
	r.differs = r.differs && a.Heal // else its state is all that is left
	r.accusations = nil             // they were of the members of the quorum before, and are told
	r.claim.Clear()
	if t.Fresh {
		r.wanted = "" // it was wanted of the quorum before
	}
	r.raise()
	if t.Fresh {
		r.ready, r.ballots, r.attempt.opsHere = false, 0, 0
		r.attempt.late = r.attempt.open && r.attempt.failed
	}
	t.Shared = r.sharedOut()
	// C1: this rank gave its promise up, and the answer rolled the step forward; its
	// gradients are gone. Without a heal it would train on from the step before.
	if !a.Heal && a.Position != r.position {
		t.Wrong = true
		r.fallen()
	}
	t.Early = r.caughtUp()
	return t, nil
}

// leftOut takes in an answer in which this replica is no member.
func (r *Rank) leftOut(q *Quorum, err error) (Taken, error) {
	// It is in no quorum from here on, whatever the answer says of its step.
	r.fallen()
	if !errors.Is(err, ErrNotMember) {
		return Taken{}, err
	}
	s := r.settled(r.claim.SettleOutside(q.Settlement, r.cluster(), r.cfg.GroupRank))
	return Taken{Settled: s, Left: true}, err
}

// settled takes in what an answer says of a promised step, and rolls it forward if
// so.
func (r *Rank) settled(s Settled) Settled {
	switch {
	case !s.Known:
	case s.Forward:
		r.settlement = settlementForward
		r.commit(s.Digest)
	default:
		r.settlement = settlementDiscard
	}
	return s
}

// cluster is that of the quorum that was taken up last.
func (r *Rank) cluster() string {
	if r.quorum == nil {
		return ""
	}
	return r.quorum.Cluster
}

// commit counts the step that is under way.
func (r *Rank) commit(digest Digest) {
	r.position = Position{Cluster: r.quorum.Cluster, Step: r.position.Step + 1, QuorumID: r.quorum.ID}
	// A heal brings its donor's count (Healed), so all members have the same one.
	r.batches += int64(r.assign.Divisor)
	r.digest = digest
	r.claim.Clear()
	r.failures, r.discarded = 0, 0
}

// Configured notes that the group of the newest quorum is ready, unless that fell
// meanwhile.
func (r *Rank) Configured() bool {
	if r.standing {
		r.ready = true
	}
	return r.standing
}

// Healed notes that this rank took over a state. It counts on itself from now on,
// but its quorum may not: then it wants another one, see raise.
func (r *Rank) Healed(at Position, batches int64, digest Digest) {
	r.position, r.batches, r.digest = at, batches, digest
	r.behind, r.differs, r.ahead, r.failures = false, false, false, 0
	// §2.2: the answer says who counts, so it stays outside until the next one.
	r.outside = r.assign.ParticipantRank < 0
	r.raise()
}

// HealedBeside notes, before the ballot, that the state came beside the
// collectives of the open attempt; it says whether this rank is behind, and stays so.
func (r *Rank) HealedBeside() (unhealed bool) {
	r.attempt.healed = !r.behind
	return r.behind
}
