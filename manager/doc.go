// Package manager runs a replica's side of the protocol: a [Manager] per rank, which the
// training loop talks to, and in group rank 0's process the replica's server, which
// makes all ranks act as one.
//
// It decides nothing by itself. What a rank holds, has promised and wants, and what
// follows from a ballot, a vote, a notice or an answer, is package quorum's: Rank, Claim,
// Polls, MergeReports. The packages here carry that out:
//
//	manager                   one rank: attempts, operations, heals
//	manager/internal/replica  the replica's server: one join of the ranks' reports, one decision of their votes
//	manager/internal/state    the registered parts of the state: as one, installed, summed up
//	manager/internal/session  the stream to the lighthouse, whichever server leads
//	internal/monitor          a mutex, and the waiting for a change of what it guards
//	manager/internal/listen   where the replica listens
//	manager/internal/final    the errors that end training
//	manager/internal/tasks    work on goroutines of Run
//	manager/internal/prober   peers that were out of reach are tried again
//	manager/internal/blame    whose fault an error was
//	manager/internal/events   events in their order, to Config.OnEvent
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
//		m.Group().AllReduce(ctx, tensor.Of(grads), tensor.Avg) // errors are reported to m, not returned
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
// forward pass. Operations that an attempt had issued are not repeated by
// themselves: ShouldCommit discards it without a ballot, and once it has taken up
// the next quorum's answer it is void. One that had issued none goes on in the next
// quorum.
//
// # What happens to a gradient
//
// Read inflight.go, commit.go, ballot.go.
//
//  1. Group().AllReduce submits an operation. tracked counts it as under way; pg.Managed
//     asks participation (attempt.go) for the roster of the attempt, and holds the
//     operation until the quorum is there, for Timeouts.Quorum at most. A replica that
//     does not take part gives zeros.
//  2. issued notes that the attempt has issued operations (quorum.Rank.Issue), sets the
//     deadline, and gives the operation to Config.Backend.
//  3. ShouldCommit gathers: it waits for the quorum, the operations under way, and a heal
//     beside them. Then it exchanges ballots over the group's own links, which carry the
//     digest of what was reduced, and quorum.Rank.Judged makes a vote of them.
//  4. It polls: the vote goes to the replica's server, which waits for the votes of all ranks;
//     quorum.Rank.Resolve says what their tally means. Commit and discard are final. A
//     rank that is prepared (settle.go) joins the next quorum and waits for its settlement.
//  5. True means that every replica that ends this step applies the gradient; false, that this
//     one does not: nor does any other, unless this one was behind or gave its promise up.
//
// # What happens to an error
//
// Read attempt.go, notice.go, request.go.
//
//  1. The trainer's (ReportError) fails the attempt (quorum.Rank.Fail), and no more: the
//     operations go on, the ballot says no, all replicas discard the step, the quorum stands.
//  2. An operation's comes by participation.ReportError to opFailed, which cuts the attempt:
//     its further operations are not issued. If it broke the group (broken.go), the peer
//     whose link broke is accused, and the quorum falls. A link that breaks in the forward
//     pass comes by the group's watch, and another rank's or replica's break by a notice.
//  3. fall (notice.go) ends the quorum once: quorum.Rank.Fall, the group aborted with the
//     cause, a heal under way ended, and a request made: at once, or by what the trainer does
//     next, where it is in ShouldCommit or its StartQuorum waits.
//  4. The request (request.go) works until the group is ready again: it reports to the replica's
//     server, which joins when all ranks have reported; takes up the answer (quorum.Rank.Take);
//     configures (configure.go); heals. It starts over when the quorum falls meanwhile.
//  5. An error that ends training is set once (setFinal). Everything that waits returns it.
//
// # What happens to a heal
//
// Read heal.go, loan.go, internal/state. (Which members have the state, and in which order they
// are asked, is quorum.Assign's: Assignment.Heal and Sources.)
//
//  1. healIfBehind looks at the answer. A rank that takes part, or whose StartQuorum waits,
//     heals before its collectives; any other, and a newcomer that has copied a state
//     ahead, beside them (quorum.Rank.Syncs).
//  2. fetch borrows the tensors: they are lent from the call of StartQuorum to the end of
//     ShouldCommit. It asks the sources' managers where their states are served, and what
//     differs comes in stripes from all of them, beside the live tensors (checkpoint.Mirror);
//     with Config.HealInPlace, where StartQuorum waits, over them.
//  3. load installs it on the trainer's goroutine, in StartQuorum or ShouldCommit, calls the
//     load callbacks, and tells quorum.Rank.Healed the position. What a loop has taken from
//     its state before that, as its number of the step, is of before the heal.
//  4. A transfer that breaks off leaves the tensors as they were. The lighthouse is told
//     (unhealed), the quorum falls, and what has come is kept for the next heal, which compares.
//  5. The other side is donor.go: Config.Transport serves the tensors from the end of
//     StartQuorum to that of ShouldCommit. The copy before the first join is ahead.go.
//
// # The share of a step
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
// (ErrRankLost), states that differ, if that is to end it (ErrDiffered), a state in part
// overwritten (ErrStateLost), no peer in reach (ErrAstray), a state that does not fit (*safetensors.MismatchError). A loop that
// forgets ShouldCommit gets ErrStepOpen from StartQuorum.
//
// # Goroutines
//
// All belong to Run, which has waited for each of them when it returns; New
// starts none. Everything that waits ends by Run's ctx or by a timeout of
// [Timeouts].
//
//	name            owns                    waits for                          ended by
//	Tasks.Run       what the tasks queue    the next task                      ctx
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
//	  pingWhen-     an unanswered ask       the lighthouse to answer again     ctx
//	  Unanswered
//	  guardRanks    nothing                 a rank's link to break             ctx, a rank that is gone
//	  session.Run   the open stream         beats, things to send              ctx, final refusal, guardRanks
//	    dialFirst   a connection            the server's greeting              another's, dial timeout, ctx
//	    read        what comes down         the stream                         the stream's end
//	    watch       nothing                 the server's silence               the stream's end
//	  store.Run, rpc.Serve                  connections                        ctx
//	  port.Run, web.Serve                   connections, scrapes               ctx
//
// The locks are Manager.mu, Tasks.mu, Events.mu, tracked.mu and Prober.mu, and those of
// packages manager/internal/session, manager/internal/replica and manager/internal/metrics. Manager.mu is held
// while Tasks.mu or tracked.mu is taken, Prober.mu while Tasks.mu or Session.mu is; no
// other two are held together, and nothing is called out to under any of them.
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
