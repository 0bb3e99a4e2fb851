package pg

import (
	"context"
	"slices"
)

// Participation is what Managed asks of its manager. An attempt is one try at
// a step: the number rises with every StartQuorum, also when a step is tried
// again, so that what belongs to an earlier attempt never touches a later one.
// All methods are safe for concurrent use, and Managed calls none of them while
// it holds a lock.
type Participation interface {
	// Attempt is the attempt under way. An op belongs to the attempt in which
	// it was submitted. Never blocks.
	Attempt() int64

	// Roster tells who takes part in an attempt, once the quorum is known and
	// the group below is configured for it; ok is false until then, and for
	// any other attempt than the one under way. Never blocks.
	Roster(attempt int64) (r Roster, ok bool)

	// WaitRoster blocks until Roster would say ok, ctx ends, the attempt is
	// over, or there will be no quorum for it; then the error tells why.
	WaitRoster(ctx context.Context, attempt int64) (Roster, error)

	// ReportError marks an attempt as failed. An attempt that is over ignores it.
	// Must not block.
	ReportError(attempt int64, err error)

	// Errored tells whether an attempt is over, or its group is: its ops are not
	// worth issuing any more. Never blocks.
	Errored(attempt int64) bool
}

// Roster says how the members of the group below take part in one attempt.
type Roster struct {
	Rank      int // this process's, in the group below
	WorldSize int // of the group below

	// Participants are those ranks of the group below whose contributions
	// count, ascending. A participant's rank under Managed is its index.
	Participants []int
}

// ParticipantRank is this process's rank among the participants, or -1.
func (r Roster) ParticipantRank() int { return r.participantOf(r.Rank) }

// everybody tells whether members and participants are the same, so that ranks
// need no mapping.
func (r Roster) everybody() bool { return len(r.Participants) == r.WorldSize }

// participantOf is a member's rank among the participants, or -1.
func (r Roster) participantOf(rank int) int { return slices.Index(r.Participants, rank) }
