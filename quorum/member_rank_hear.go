package quorum

import "slices"

// Bounds of what a rank keeps.
const (
	// One answer is on its way at a time, and of one quorum a fall, some losses and a change
	// are told.
	maxEarly = 64
	// One per member would do; a join carries no more (MaxAccusations).
	maxRankWord = 64
)

// Fall ends the standing quorum if its id is this one; it says whether it did. A
// quorum falls once, and never stands again: its group is broken, or will be.
func (r *Rank) Fall(id int64) bool {
	// A notice and a broken link say the same, in any order: the first one counts.
	if !r.In(id) || !r.standing {
		return false
	}
	r.fallen()
	return true
}

// fallen notes that the quorum is no more. A need of another one goes on as a
// fall: as an ask it would end nothing, and wait for members that know of none.
func (r *Rank) fallen() {
	r.standing, r.answered = false, false
	// Where there is none yet, Need makes one.
	if r.need != needNothing {
		r.need = needFall
	}
}

// Heard is what a notice means.
type Heard uint8

// The meanings of a notice.
const (
	HeardNothing Heard = iota // it is old news, or changes nothing
	HeardEarly                // it is about a quorum that is still to be taken up
	HeardFall                 // the quorum of that id is over: Fall, and abort its group
	HeardWanted               // ballots want a change from now on
	HeardMore                 // it is not about a quorum: the shell sees to it
)

// Hear takes in a notice.
//
// One about a newer quorum than this rank's is about an answer that is on its way
// through this process (PROTOCOL §3.1): it overtook the answer, which came first. It is
// kept, and Take hands it out. (Dropped, a fall would leave this rank in a group that all
// others have left.) One about an older quorum is old news.
//
//	a newer quorum             HeardEarly: kept until its answer comes
//	this one: fallen, lost     HeardFall; a commit that it tells may make up for lost ballots
//	this one: wanted           HeardWanted, once, while it stands
//	an older one               HeardNothing
//	none: a probe, a drain     HeardMore
func (r *Rank) Hear(n Notice) Heard {
	switch n.Kind {
	// Those about a quorum. A probe, a drain and the like are for the manager's shell.
	case NoticeFallen, NoticeLost, NoticeWanted, NoticeSibling:
	default:
		return HeardMore
	}
	if n.QuorumID != 0 && n.QuorumID > r.QuorumID() {
		if len(r.early) < maxEarly {
			r.early = append(slices.Clip(r.early), n)
		}
		return HeardEarly
	}
	switch {
	// Of an older quorum; it has been left.
	case !r.In(n.QuorumID):
		return HeardNothing
	case n.Kind != NoticeWanted:
		// What the joiner committed may make up for ballots that this rank misses (§3.1).
		r.claim.Tell(n.Fact)
		return HeardFall
	// It falls anyhow, or its ballots say so already.
	case !r.standing || r.wanted != "":
		return HeardNothing
	}
	// §3.2: it says so with the next ballot, and all ask together after that step.
	r.wanted = n.Reason
	if r.wanted == "" {
		r.wanted = "the lighthouse"
	}
	return HeardWanted
}

// caughtUp returns the kept notices about the quorum just taken up.
func (r *Rank) caughtUp() []Notice {
	var due, rest []Notice
	for _, n := range r.early {
		switch {
		// Heard now, behind the answer that they overtook. One about an older quorum is neither
		// due nor kept.
		case n.QuorumID == r.quorum.ID:
			due = append(due, n)
		case n.QuorumID > r.quorum.ID:
			rest = append(rest, n)
		}
	}
	r.early = rest
	return due
}

// HearAgain notes that the lighthouse is there again after an ask that went
// unanswered: what this rank itself wants is wanted again. What others want the
// lighthouse says again.
func (r *Rank) HearAgain() {
	r.muted = false
	r.raise()
}

// raise wants a change for what this replica itself needs. One that has healed
// beside a step waits for its first commit with that, unless there may be none,
// because those who take part are too few, or because a step has failed: they may be
// too few for others. Else each newcomer would cost a change in the middle of the step
// in which it came. (Others wanted eight, of whom six took part and three had healed.
// These asked for no more than one, and waited for the commit that the others refused.)
// One that drains stays only until another holds its state, so it wants the others to go
// on without it.
func (r *Rank) raise() {
	a := r.assign
	due := r.position != a.Max || r.TooFew() || r.failures > 0
	room := r.cfg.FixedWorldSize == 0 || a.Divisor < r.cfg.FixedWorldSize
	switch {
	case r.draining != "" && r.quorum != nil && r.quorum.Size() > 1:
		r.wanted = wantsToGo
	case r.outside && due && room:
		r.wanted = "a healed replica wants to take part"
	}
}

// Drain notes that this replica leaves, and why; false if it was known.
func (r *Rank) Drain(reason string) bool {
	if r.draining != "" {
		return false
	}
	r.draining = reason
	return true
}

// Stay notes that its drain was taken back; false if it does not drain.
func (r *Rank) Stay() bool {
	if r.draining == "" {
		return false
	}
	r.draining = ""
	// What it may have said with a ballot already costs an ask, whose answer has it in.
	if r.wanted == wantsToGo {
		r.wanted = ""
	}
	return true
}

// wantsToGo is why one that drains wants a change.
const wantsToGo = "a replica drains"

// Accuse notes an accusation, for the next report; it says whether it is news. The
// watch and the operations of one rank see one link break.
func (r *Rank) Accuse(a Accusation) bool {
	known := slices.ContainsFunc(r.accusations, func(old Accusation) bool {
		return old.Against == a.Against && old.QuorumID == a.QuorumID && old.Kind == a.Kind
	})
	// Appended to a copy: a report that has gone out shares the old list.
	if !known && len(r.accusations) < maxRankWord {
		r.accusations = append(slices.Clip(r.accusations), a)
	}
	return !known
}
