package quorum

import (
	"fmt"
	"time"
)

// This file keeps rule L1 for a trainer that hangs while its manager lives.
//
// A manager joins beside its trainer when a quorum falls, so that the others need
// not wait for a forward pass to end. It must not do so for a trainer that hangs:
// the others would get it into every quorum again, wait for its operations until
// their deadline, discard the step, and so on for ever. A replica whose trainer
// has not moved for the time that one step may wait is away: it joins no more
// until the trainer moves, and says so in its beats, so that nobody waits for its
// join (C7).

// TrainerAway says whether a manager stops joining for its trainer. idle is how
// long the trainer has called nothing; waits says that it is inside a call, or
// that an operation of its is under way: then it is the trainer that waits. A
// trainer whose forward pass is longer than stepTimeout is away for falls that
// come late in it, and joins with its next operation.
func TrainerAway(idle, stepTimeout time.Duration, waits bool) bool {
	return !waits && idle >= stepTimeout
}

// notesAway takes from a beat whether the replica joins. One that is away is not
// live (PROTOCOL §1): no window waits for it, and no majority counts it. It may
// still be the only one that holds the highest position, or that knows what became
// of a step; for that it is waited for (Q10, §4.6), as long as it is not stuck:
// else a job whose one healthy replica evaluates for minutes would begin again at
// step 0 with whoever was about to heal from it.
//
// Who has a join waiting is not away: it takes that back first. (A beat that was
// written before the join and sent after it would put the replica out of the window
// that waits for it.)
//
// A member that does not join has seen the quorum fall, and nobody else may be there
// to say so: it is the only one, one rank of it hangs, and a newcomer waits outside.
func (m *Machine) notesAway(now time.Time, r *replica, away bool) {
	if r.away == away || away && r.join != nil {
		return
	}
	r.away = away
	if !away {
		// It may have moved in a beat that still said away, and now waits in the
		// StartQuorum that joined: it stayed stuck, and was let into no quorum.
		m.eventOf(EventCleared, r.id, Cause{Kind: CauseAway, Replica: r.id, Evidence: "its trainer moves again"})
		m.progressed(now, r)
		m.announceChange(now)
		return
	}
	m.eventOf(EventAway, r.id, Cause{Kind: CauseAway, Replica: r.id, Evidence: awayWhy(now.Sub(r.progressAt))})
	if r.member && r.beat.QuorumID == m.lastID() && !m.fallen {
		m.fall(now, Cause{Kind: CauseAway, Replica: r.id, Evidence: "does not join the next quorum: its trainer does not move"})
		m.tellMembers()
	}
	m.reschedule()
}

func awayWhy(idle time.Duration) string {
	return fmt.Sprintf("its trainer has not moved for %v, and it does not join until it does",
		idle.Round(time.Millisecond))
}
