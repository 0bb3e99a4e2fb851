// Package manager runs a replica's side of the protocol: a [Server] per
// replica group, in group rank 0's process, which holds the session with the
// lighthouse and tallies votes; and a [Manager] per rank, which the training
// loop talks to.
//
// # One step
//
//	StartQuorum ─▶ the quorum stands? ──yes──▶ collectives ─▶ ballot ─▶ vote ─▶ tally ─▶ commit | discard
//	                    │ no                        ▲
//	                    └▶ join ─▶ answer ─▶ Assign ─▶ prefix ─▶ Configure ─▶ heal? Fetch
//
//	for m.Step() < steps {
//		m.StartQuorum(ctx)              // asks nobody while the quorum stands; joins beside the forward pass
//		loss := forwardBackward(batch)
//		m.Group().AllReduce(ctx, pg.Of(grads), pg.Avg) // errors are reported to m, not returned
//		ok, err := m.ShouldCommit(ctx)  // ballot, vote, tally, and if need be settlement
//		if ok { optimizer.Step() }
//	}
//
// # Threads
//
// StartQuorum, the collectives of one step, and ShouldCommit are called by one
// goroutine of the trainer, in this order. Everything else may be called from
// any goroutine. State callbacks: save runs between StartQuorum and
// ShouldCommit, never while the optimizer steps; load runs on the trainer's
// goroutine, inside StartQuorum (sync) or ShouldCommit (async).
//
// # Errors
//
// Nothing that goes wrong in a step is returned from collectives, and nothing
// crashes the trainer: it is reported (ReportError), and the step is
// discarded. StartQuorum and ShouldCommit return an error only when training
// cannot go on: ctx ended, evicted, refused for good (ErrRefused), too many
// discarded steps in a row (ErrMaxRetries), drained (ErrDrained), a state that
// does not fit (*checkpoint.MismatchError).
package manager
