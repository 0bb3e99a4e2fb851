// Package failpoint names the places of production code in which a test may end a
// replica: before, during and after each thing that others wait for or that must not be
// half done.
//
// A process passes its points all the time, and nothing happens there: it has no hook. A
// test gives it one by the context that the process runs in, so that nobody outside of it
// can, by no variable and no message; and several replicas in one test process have each
// their own.
//
//	ctx = failpoint.With(ctx, func(p failpoint.Point) { … kill this process … })
//	err := m.Run(ctx)
//
// A hook that returns lets the code go on. One that does not, because it waits for the
// end of the process, holds up the goroutine that is there and no other.
package failpoint

import (
	"context"
	"slices"
	"sync/atomic"
)

// Point is a place in the code, as "join.before". A Before is passed when all that comes first
// is done; a During when the thing is under way and not at its end; an After when it is
// done, and nobody has been told.
type Point string

// The points, in the order of a step. Who passes them is said where they are.
const (
	JoinBefore Point = "join.before" // a rank that is about to report to its replica's server
	JoinDuring Point = "join.during" // group rank 0: the join is with the session
	JoinAfter  Point = "join.after"  // a rank that has its answer, and has not taken it up

	ConfigureBefore Point = "configure.before"
	ConfigureDuring Point = "configure.during" // the backend: it can be found, and has not found all
	ConfigureAfter  Point = "configure.after"

	SendBefore Point = "heal-send.before" // a donor that was asked for a part of its state
	SendDuring Point = "heal-send.during" // some of the part is on its way
	SendAfter  Point = "heal-send.after"

	ReceiveBefore Point = "heal-receive.before" // donors are known
	ReceiveDuring Point = "heal-receive.during" // some of the state is here
	ReceiveAfter  Point = "heal-receive.after"  // the state is installed

	AllReduceBefore Point = "all-reduce.before" // an operation of any kind is about to reach the group
	AllReduceDuring Point = "all-reduce.during" // its bytes are moving
	AllReduceAfter  Point = "all-reduce.after"  // all operations of the step are done

	BallotBefore Point = "ballot.before"
	BallotDuring Point = "ballot.during" // own ballot is given
	BallotAfter  Point = "ballot.after"  // the ballots are judged

	VoteBefore Point = "vote.before"
	VoteDuring Point = "vote.during" // group rank 0: a vote is counted
	VoteAfter  Point = "vote.after"  // the replica has decided

	CommitBefore Point = "commit.before" // the decision is to commit
	CommitDuring Point = "commit.during" // the rank's position is the next one
	CommitAfter  Point = "commit.after"  // ShouldCommit is about to return true

	ApplyBefore Point = "apply.before" // the trainer knows that it commits
	ApplyDuring Point = "apply.during" // some parameters have changed
	ApplyAfter  Point = "apply.after"

	CheckpointBefore Point = "checkpoint.before"
	CheckpointDuring Point = "checkpoint.during" // files are written, the manifest is not
	CheckpointAfter  Point = "checkpoint.after"
)

// All returns every point, in the order of a step.
func All() []Point {
	return slices.Clone([]Point{
		JoinBefore, JoinDuring, JoinAfter, ConfigureBefore, ConfigureDuring, ConfigureAfter,
		SendBefore, SendDuring, SendAfter, ReceiveBefore, ReceiveDuring, ReceiveAfter,
		AllReduceBefore, AllReduceDuring, AllReduceAfter, BallotBefore, BallotDuring, BallotAfter,
		VoteBefore, VoteDuring, VoteAfter, CommitBefore, CommitDuring, CommitAfter,
		ApplyBefore, ApplyDuring, ApplyAfter, CheckpointBefore, CheckpointDuring, CheckpointAfter,
	})
}

// Hook is told of each point that is passed, on the goroutine that passes it, with no lock
// of the code's held. It is called from several goroutines. nil: nobody is told.
type Hook func(Point)

// At passes p.
func (h Hook) At(p Point) {
	if h != nil {
		h(p)
	}
}

type key struct{}

var some atomic.Bool // a context of this process has a hook

// With gives all that runs in ctx a hook.
func With(ctx context.Context, h Hook) context.Context {
	some.Store(true)
	return context.WithValue(ctx, key{}, h)
}

// From is the hook of ctx, for code that has no context at its points; nil: none.
func From(ctx context.Context) Hook {
	if !some.Load() {
		return nil
	}
	h, _ := ctx.Value(key{}).(Hook)
	return h
}

// At passes p. Without a hook in the process it costs the read of one variable.
func At(ctx context.Context, p Point) { From(ctx).At(p) }
