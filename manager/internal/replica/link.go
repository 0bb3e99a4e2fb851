package replica

import (
	"context"

	"github.com/skerry-ft/skerry/quorum"
)

// Link is how a rank reaches its replica's server: directly in group rank 0's
// process, by RPC from the others.
type Link interface {
	// Report hands in the rank's report and waits for an answer newer than
	// what the rank has. When ctx ends first the report is withdrawn; the reply
	// is then nevertheless the answer if there was one already.
	Report(ctx context.Context, r quorum.RankReport) (Reply, error)
	// Vote hands in the rank's vote and waits for the replica's decision. It is
	// idempotent: a repeated vote gets the same decision. When ctx ends first, the
	// attempt is decided without the votes that are missing.
	Vote(ctx context.Context, v quorum.RankVote) (quorum.TallyResult, error)
	// Away tells the server that this rank reports no more, because its trainer
	// does not move, or that this is over; it asks away which of the two when the call
	// begins. Calls are made one after the other, so the last word is what is so. A
	// Report takes it back; one that is lost on the way costs a join timeout.
	Away(ctx context.Context, away func() bool)
	// Notices calls f for each notice, one at a time, until ctx ends or the
	// server is gone.
	Notices(ctx context.Context, f func(Notice)) error
	// Sources waits until the replica has a session, and says where to fetch a
	// state from before the first join.
	Sources(ctx context.Context) (quorum.Sources, error)
}

// Reply is what a report gets. Exactly one of Quorum and Unanswered is set.
type Reply struct {
	Quorum      *quorum.Quorum
	VoidAttempt uint64 // with Quorum: the newest one that is void for all ranks; 0: none
	Attempt     uint64 // the one in which the siblings are, or which they begin next
	Unanswered  bool   // the ask was withdrawn; the standing quorum goes on
	// VoteFirst, with Unanswered: a sibling has voted on the attempt and waits for
	// this rank's vote, or has gone on without it; report again after it.
	VoteFirst bool
}

// Notice is what a server pushes to a rank: a notice of the lighthouse, or one
// of the two of its own.
type Notice struct {
	quorum.Notice
	Sibling        *SiblingBroke // another rank broke its group
	Hello          *RankHello    // the first one
	LighthouseBack bool          // the lighthouse is there again
}

type SiblingBroke struct {
	QuorumID  int64
	GroupRank int
	Cause     string
}

// RankHello is what a rank must know of its replica.
type RankHello struct {
	ReplicaID      string
	GroupWorldSize int
}
