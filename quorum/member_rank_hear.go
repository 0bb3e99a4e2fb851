package quorum

import "slices"

// Bounds of what a rank keeps.
const (
	maxEarly    = 64 // notices about quorums that are still to be taken up
	maxRankWord = 64 // accusations in one quorum: one per member would do
)

// Fall ends the standing quorum if its id is this one; it says whether it did. A
// quorum falls once, and never stands again: its group is broken, or will be.
func (r *Rank) Fall(id int64) bool {
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
func (r *Rank) Hear(n Notice) Heard {
	switch n.Kind {
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
	case !r.In(n.QuorumID):
		return HeardNothing
	case n.Kind != NoticeWanted:
		// What the joiner committed may make up for ballots that this rank misses (§3.1).
		r.claim.Tell(n.Fact)
		return HeardFall
	case !r.standing || r.wanted != "":
		return HeardNothing
	}
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
		r.wanted = "a replica drains"
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

// Accuse notes an accusation, for the next report; it says whether it is news. The
// watch and the operations of one rank see one link break.
func (r *Rank) Accuse(a Accusation) bool {
	known := slices.ContainsFunc(r.accusations, func(old Accusation) bool {
		return old.Against == a.Against && old.QuorumID == a.QuorumID && old.Kind == a.Kind
	})
	if !known && len(r.accusations) < maxRankWord {
		r.accusations = append(slices.Clip(r.accusations), a)
	}
	return !known
}
