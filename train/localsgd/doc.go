// Package localsgd trains replicas that reduce once in many inner steps instead of in
// each: LocalSGD, DiLoCo, and streaming DiLoCo.
//
//	LocalSGD  after Every inner steps the parameters are averaged; quantised, what they have
//	          come away from the global ones
//	DiLoCo    after Every inner steps an outer optimizer takes the average of what the
//	          replicas have come away from the global parameters for a gradient
//	streaming the model is cut into fragments, which are synchronised in turn, beside
//	          the inner steps that follow
//
// # Usage
//
//	d, err := localsgd.NewDiLoCo(m, [][]localsgd.Param{params}, localsgd.DiLoCoConfig{
//		Every: 100, Rounds: 1000,
//		Outer: localsgd.SGD{Rate: 0.7, Momentum: 0.9, Nesterov: true},
//	})                                  // before m.Run, and after the parameters have their first values
//	defer d.Close()
//	…
//	for !d.Done() {
//		if err := d.Begin(ctx); err != nil { … } // begins a round where none is under way
//		…                                        // forward, backward, the inner optimizer's step
//		committed, err := d.Step(ctx)            // counts it, and ends the round if it was the last
//	}
//	err = m.Finish(ctx, 10*time.Second, d.Idle)
//
// # Rounds
//
// A round is one step of the manager: StartQuorum, inner steps, one reduction,
// ShouldCommit. Begin starts it, before the first inner step, so that the quorum is formed
// and replicas heal beside the inner steps, and the death of a replica among them costs the
// others nothing: a round of which nothing was reduced yet goes on in the next quorum. A
// Step without a Begin begins the round itself, after its first inner step.
//
// With F fragments a round has Every/F inner steps, and is about one fragment: the manager's
// step modulo F. So all replicas reduce the same one, whenever they came. Each fragment is
// synchronised once in Every inner steps.
//
// Reduced are plain averages over the replicas that take part. A replica that heals
// beside a round, or is a spare, gives nothing, and gets the result. It learns which fragment
// is reduced from the others: with several fragments a round begins with an all-reduce of
// the step, 8 bytes.
//
// # What is registered
//
// The constructors register the global state with the manager, under the name
// "localsgd": the parameters of the last committed round in float32, the momentum of the outer
// optimizer, and the counters of rounds. It changes in commits only, and is the
// same on all replicas, bit for bit: outer steps round each operation to float32. The
// live parameters, those that the inner steps change, are the replica's own: they may be
// written at any time, and must not be registered.
//
// A replica that heals takes its live parameters, all of them, from the global ones,
// on the trainer's goroutine inside Begin or Step. Inner steps that it made before that
// are lost: a round that it begins by healing starts with none. Config.Sync of the
// manager makes Begin wait for the heal, so that its first round counts; without it
// that round is the others' alone.
//
// The state of the inner optimizer is not moved: a replica that comes anew starts
// with a fresh one. A loop that wants it moved registers it as manager.StateOptions.Local, and
// with Delay above 0 as Volatile, too, since inner steps then go on while it is
// lent. What the loop registers besides, as a sampler's cursor, moves after a Step that
// returned true, or the step that it counts: before the next Begin.
//
// # Samples
//
// A sampler whose cursor moves in commits, as train/sampler.Elastic, deals out a round at once: one
// Next, of the samples of all its inner steps, after Begin and the manager's WaitParticipants, and the
// loop cuts the share; the second example has all of it. A Next in every inner step would deal the
// same samples out each time. A round that has asked who takes part is discarded when the death
// of a replica leaves it to others, even if nothing of it was reduced. Replicas count for
// the same in an average, though shares of an epoch's last round may differ by a sample.
//
// # Commit
//
//	LocalSGD  global = average; live = global. Under Reduction.Quantize global = global −
//	          average of global − live, which is the same but for rounding: the parameters
//	          themselves in eight bits would lose small updates in every round
//	DiLoCo    global = outer step with the average of global − live; live = global
//	  Alpha   live = global + Alpha·(live − global), element by element; after a heal in
//	          that round live = global
//
// With several fragments that is so of the round's fragment; the others stay as they are.
//
// # A discarded round
//
// Nothing global changes, and the live parameters of the round are put back:
//
//	LocalSGD             all live parameters are the last global ones (torchft keeps the
//	                     local ones, so that replicas part further with each discard)
//	DiLoCo               the same
//	streaming DiLoCo     those of the round's fragment are its last global ones; inner steps
//	                     on other fragments stay
//
// The round is tried again from there: with its inner steps anew, on the same fragment,
// since the manager's step has not moved. The inner optimizer's state stays as the inner steps
// left it. Step returns false. The replicas that take part in the next try may be others.
//
// # Reduction
//
// What is reduced is the fragment's elements in float32, one parameter after the other, cut into
// buckets of Reduction.BucketBytes wherever that falls. So each element is in exactly one
// bucket, however large its tensor. Buckets are in flight together; quantised ones
// (Reduction.Quantize) one after the other, which bounds the memory of codes.
//
// With Delay above 0 the reduction starts so many inner steps before the end of the
// round, with the parameters as they are then, on a goroutine; Step waits for it only at
// the end of the round. Other collectives over the manager's group must not be called meanwhile.
//
// Sent says what the last reduction gave to the group.
//
// # Waiting
//
// Begin blocks as manager.StartQuorum does: it asks nobody while the quorum stands. Step
// blocks in the last inner step of a round, for the slowest replica, and as ShouldCommit
// does. ctx ends both; a reduction under way is then aborted, and its round discarded.
// The reduction waits for the slowest replica as long as the manager's StepTimeout: that
// has to be longer than what the rounds of two replicas differ by. Step tells the manager of
// every inner step (Move), so that a trainer in the middle of a long round is neither away nor
// stuck.
//
// # Errors
//
// What goes wrong in a round discards it, and is reported to the manager. Begin, Step and
// Idle return an error only when training cannot go on: those of StartQuorum and
// ShouldCommit, wrapped; and Step ErrDone once all rounds are through.
//
// # Threads
//
// An Averager is owned by the trainer's goroutine. With Delay above 0 it has one goroutine
// beside it, from the start of a reduction to its end; the last Step of the round, or Close,
// waits for it.
//
// Source: torchft local_sgd.py; Douillard et al., DiLoCo (arXiv 2311.08105) and
// Streaming DiLoCo (arXiv 2501.18512).
package localsgd
