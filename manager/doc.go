// Package manager runs a replica's side of the protocol: a server per replica
// group, in group rank 0's process, which holds the session with the lighthouse
// and tallies votes; and a [Manager] per rank, which the training loop talks to.
//
// # One step
//
//	StartQuorum ─▶ the quorum stands? ──yes──▶ collectives ─▶ ballot ─▶ vote ─▶ tally ─▶ commit | discard
//	                    │ no                        ▲                              │ ballots lost
//	                    └▶ join ─▶ answer ─▶ Assign ─▶ prefix ─▶ Configure ─▶ heal? Fetch
//	                         ▲                                                     │
//	                         └──────────────── prepared: the answer settles ◀──────┘
//
//	for m.Step() < steps {
//		m.StartQuorum(ctx)              // asks nobody while the quorum stands; joins beside the forward pass
//		loss := forwardBackward(batch)
//		m.Group().AllReduce(ctx, pg.Of(grads), pg.Avg) // errors are reported to m, not returned
//		ok, err := m.ShouldCommit(ctx)  // ballot, vote, tally, and if need be settlement
//		if ok { optimizer.Step() }
//	}
//
// An attempt is one try at a step, from StartQuorum to the end of ShouldCommit.
// All ranks of a replica are in the same attempt: ShouldCommit is a barrier of
// the replica, and gives all its ranks one answer.
//
// A quorum falls when an operation fails, a notice comes or a ballot says so.
// The group is aborted at once, and the next quorum is asked for beside the
// forward pass. An attempt that had issued operations is then void: they are
// not repeated by themselves, and ShouldCommit discards it without a ballot. One
// that had not goes on in the next quorum.
//
// A loop whose data follow the quorum asks WaitParticipants after StartQuorum, in
// every step, for its share: NumParticipants and its like tell of the newest quorum
// that there is, which may be the last step's.
//
// # Threads
//
// StartQuorum, WaitParticipants, the collectives of one step, and ShouldCommit are
// called by one goroutine of the trainer, in this order. Everything else may be called from
// any goroutine. State callbacks: save runs between StartQuorum and the ballot,
// never while the optimizer steps, on a goroutine of the Manager, and of a Volatile
// part in StartQuorum, on the trainer's; load runs on the trainer's goroutine, inside StartQuorum (a process's first quorum, step 0,
// Config.Sync) or ShouldCommit (all else).
//
// # Errors
//
// Nothing that goes wrong in a step is returned from collectives, and nothing
// crashes the trainer: it is reported (ReportError), and the step is
// discarded. StartQuorum and ShouldCommit return an error only when training
// cannot go on: ctx ended, evicted (ErrEvicted), refused for good (ErrRefused),
// no lighthouse at all (ErrUnreachable), too many discarded steps in a row
// (ErrMaxRetries), drained (ErrDrained), another rank of the replica is gone
// (ErrRankLost), a state that does not fit (*checkpoint.MismatchError). A loop that
// forgets ShouldCommit gets ErrStepOpen from StartQuorum.
//
// # Goroutines
//
// All belong to Run, which has waited for each of them when it returns; New
// starts none. Everything that waits ends by Run's ctx or by a timeout of
// [Timeouts].
//
//	name            owns                    waits for                          ended by
//	tasks.run       what the tasks queue    the next task                      ctx
//	  pursue        the one request         report's answer, Configure, fetch  group ready, ctx
//	  watch         nothing                 the group to break                 next epoch, ctx
//	  watchTrainer  nothing                 the trainer, idle for StepTimeout  what needs it, its going, ctx
//	  copyFirst     the tensors, before     sources, donors                    done, called, StartQuorum's ctx
//	                the first join
//	  fetch         one heal                the loan of the tensors, donors    done, fall, HealTimeout
//	  compare       one slice's digest      nothing                            done
//	  probeUntil    one cut link            pauses, the peer's host            in one group, ctx
//	  tellDrain     a drain                 the lighthouse, the last quorum    drained, Drain timeout
//	connect         the rank's link         notices of the replica's server    ctx, a rank that is gone
//	transport.Run   the heal listener       requests                           ctx
//	group rank 0 only:
//	  server.run    the join under way      all ranks' reports, the answer     ctx
//	  pingWhenUnanswered an ask unanswered  the lighthouse to answer again     ctx
//	  guardRanks    nothing                 a rank's link to break             ctx, a rank that is gone
//	  session.Run   the open stream         beats, things to send              ctx, final refusal, guardRanks
//	    dialFirst   a connection            the server's greeting              another's, dial timeout, ctx
//	    read        what comes down         the stream                         the stream's end
//	    watch       nothing                 the server's silence               the stream's end
//	  store.Run, rpc.Serve                  connections                        ctx
//
// The locks are Manager.mu, tasks.mu, emitter.mu and tracked.mu, and those of packages
// manager/internal/session and manager/internal/replica. Manager.mu is held while
// tasks.mu, tracked.mu or Session.mu is taken; no other two are held together, and
// nothing is called out to under any of them.
//
// # Closing
//
// Close says goodbye to the lighthouse, so that the others need not wait for a
// timeout; ends Run's ctx, which ends requests and the session; closes the
// group, whose pending operations fail with pg.ErrClosed; then the heal
// transport; the store and the RPC listener end with Run's goroutines.
// Canceling Run's ctx does the same without the goodbye. A replica ends as a
// whole: soon after the Manager of one rank has closed, those of the others
// return ErrRankLost.
package manager
