package quorum

// This file is a rank's wish for another quorum, from the moment at which it is
// needed until the group is ready: there is at most one.

// Need wishes for the next quorum if there is none, or none with a group; it says
// whether that is a new wish.
func (r *Rank) Need() bool {
	if r.wish != needNothing || r.Grouped() {
		return false
	}
	r.wish, r.answered = needFall, false
	return true
}

// Ask wishes for another quorum while this one stands; it says whether that is a
// new wish. One that has fallen is asked for with a fall, never with an ask: an ask
// ends nothing, so it would wait for members that know nothing of the fall.
//
// It is for all that is wanted by now. What is wanted later is another ask's: the
// word of it may overtake the answer to this one (and were it taken for a part of
// this ask, the joiner that it is about would never be asked for).
func (r *Rank) Ask() bool {
	if r.wish != needNothing || !r.standing {
		return false
	}
	r.wish, r.wanted, r.answered = needAsk, "", false
	return true
}

// Wishes says whether there is a wish.
func (r *Rank) Wishes() bool { return r.wish != needNothing }

// Due says whether there is a wish that has no answer: a report is due, or out.
func (r *Rank) Due() bool { return r.wish != needNothing && !r.answered }

// Asks says whether the wish is an ask: the quorum stands until it is answered.
func (r *Rank) Asks() bool { return r.wish == needAsk }

// Fulfil ends the wish if the quorum that came still stands: who makes it fall
// later finds no wish, and makes the next one. Otherwise it goes on, as a fall.
func (r *Rank) Fulfil() bool {
	if !r.standing {
		r.wish, r.answered = needFall, false
		return false
	}
	r.wish = needNothing
	return true
}

// Drop ends a wish that comes to nothing.
func (r *Rank) Drop() { r.wish = needNothing }

// Unanswered takes in that an ask was withdrawn: training goes on in the quorum
// that stands, and what wanted the change keeps quiet until the lighthouse is heard
// again (else a lighthouse that is away would cost a heartbeat timeout each step).
// It is false if the quorum has fallen meanwhile.
func (r *Rank) Unanswered() bool {
	if !r.Grouped() {
		r.wish = needFall
		return false
	}
	r.wanted, r.muted = "", true
	return true
}

// ReportOptions are the shell's part of a report.
type ReportOptions struct {
	ShrinkOnly         bool // asks that nobody new is let in
	Sync               bool // promises to heal before the collectives
	CheckpointMetadata string
}

// Report says what this rank knows now, for the wish that is under way.
//
// A fall carries its word on the step under way, and counts as one failed attempt
// at least: the group of a quorum that fell is broken, or will be, and needs a new
// id, whatever became of its steps. An ask carries no word: nothing is contested
// (PROTOCOL §4.2).
//
// The attempt is void if operations of it went into the group and its ballot did
// not: they are lost with that group, and the replica's other ranks must not vote
// on what this one can give no ballot for.
func (r *Rank) Report(o ReportOptions) RankReport {
	a := &r.attempt
	number := a.number
	if !a.open {
		number = r.next() // it is about that one
	}
	rep := RankReport{
		GroupRank:          r.cfg.GroupRank,
		Kind:               JoinAsk,
		Position:           r.position,
		HaveQuorumID:       r.haveID,
		HaveRound:          r.haveRound,
		LastDigest:         r.digest,
		CheckpointMetadata: o.CheckpointMetadata,
		ShrinkOnly:         o.ShrinkOnly,
		InitSync:           !r.cfg.NoInitSync,
		Sync:               o.Sync,
		FixedWorldSize:     r.cfg.FixedWorldSize,
		CommitFailures:     r.failures,
		Accusations:        r.accusations,
		Differs:            r.differs,
		Attempt:            number,
		Void:               a.open && !a.sealed && (a.ops > 0 || a.failed),
	}
	if r.wish == needAsk {
		return rep
	}
	rep.Kind = JoinFall
	if r.quorum != nil {
		rep.CommitFailures = max(rep.CommitFailures, 1)
		rep.Fact = r.claim.Fact(r.position, r.quorum.ID)
	}
	return rep
}
