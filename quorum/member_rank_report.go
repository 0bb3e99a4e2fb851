package quorum

// This file is a rank's need of another quorum, from the moment at which it arises until
// the group is ready (PROTOCOL §3): there is at most one.
//
//	          Need: no quorum stands, or its group is not made
//	nothing ─────────────────────────────────────────────────▶ fall
//	   │                                                        ▲
//	   │ Ask: a change is wanted, and the step has ended        │ the quorum falls
//	   └───────────────────────────────────────────────▶ ask ───┘
//
// Either ends with Fulfil, if the quorum that came stands; an ask that is not answered also with
// Unanswered and Drop, and the quorum goes on. One that falls before Fulfil is a need still.

// Need notes that the next quorum is needed, if there is none, or none with a group; it
// says whether that is news.
func (r *Rank) Need() bool {
	if r.need != needNothing || r.Grouped() {
		return false
	}
	r.need, r.answered = needFall, false
	return true
}

// Ask notes that another quorum is needed while this one stands (§3.2); it says whether
// that is news. One that has fallen is asked for with a fall, never with an ask: an ask
// ends nothing, so it would wait for members that know nothing of the fall.
//
// It is for all that is wanted by now. What is wanted later is another ask's: the
// word of it may overtake the answer to this one (and were it taken for a part of
// this ask, the joiner that it is about would never be asked for).
func (r *Rank) Ask() bool {
	if r.need != needNothing || !r.standing {
		return false
	}
	r.need, r.wanted, r.answered = needAsk, "", false
	return true
}

// Needs says whether another quorum is needed.
func (r *Rank) Needs() bool { return r.need != needNothing }

// Due says whether there is a need that has no answer: a report is due, or out.
func (r *Rank) Due() bool { return r.need != needNothing && !r.answered }

// Asks says whether the need is an ask: the quorum stands until it is answered.
func (r *Rank) Asks() bool { return r.need == needAsk }

// Fulfil ends the need if the quorum that came still stands: what makes it fall
// later finds none, and makes the next one. Otherwise it goes on, as a fall.
func (r *Rank) Fulfil() bool {
	if !r.standing {
		r.need, r.answered = needFall, false
		return false
	}
	r.need = needNothing
	return true
}

// Drop ends a need that comes to nothing.
func (r *Rank) Drop() { r.need = needNothing }

// Unanswered takes in that an ask was withdrawn (§3.2): training goes on in the quorum
// that stands, and what wanted the change keeps quiet until the lighthouse is heard
// again (else a lighthouse that is away would cost a heartbeat timeout each step).
// It is false if the quorum has fallen meanwhile.
func (r *Rank) Unanswered() bool {
	if !r.Grouped() {
		r.need = needFall
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
	Fall               Fall
}

// Report says what this rank knows now, for the need that is under way (§4.1).
//
// A fall carries its word on the step under way, and counts as one failed attempt
// at least: the group of a quorum that fell is broken, or will be, and needs a new
// id, whatever became of its steps. An ask carries no word: nothing is contested
// (§4.2; execution 5 of §10).
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
	if r.need == needAsk {
		return rep
	}
	rep.Kind, rep.Fall = JoinFall, o.Fall
	if r.quorum != nil {
		rep.CommitFailures = max(rep.CommitFailures, 1)
		rep.Fact = r.claim.Fact(r.position, r.quorum.ID)
	}
	return rep
}
