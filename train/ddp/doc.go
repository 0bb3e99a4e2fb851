// Package ddp averages gradients over replicas while the backward pass still
// runs, as DistributedDataParallel does.
//
//	red, err := ddp.New(m, params, ddp.Options{})
//	err = m.Register("ddp", red.State, red.Load) // before m.Run; see Buckets
//	…
//	loss := model.Learn(batch, red.Ready)        // while the backward pass runs
//	err = red.Reduce(ctx)                        // the rest, and wait
//	committed, err := m.ShouldCommit(ctx)
//	if committed {
//		optimizer.Step()
//		red.Commit()                         // before the next StartQuorum
//	}
//
// Over a plain group (Over) there is nothing to register, and Reduce commits by itself.
// Buffers that rank 0's forward pass changes are broadcast by Broadcast before the
// others'; under a manager they are registered as Volatile then.
//
// # Buckets
//
// Parameters are put into buckets in reverse order, since the last layer's
// gradients are ready first. A bucket holds parameters of one dtype, up to
// BucketBytes (25 MiB, less for a model below 200 MiB), the first one up to FirstBucketBytes; a parameter that is larger than that has a bucket of its own. Every
// parameter is in exactly one bucket, and every bucket is reduced in every
// step: gradients for which Ready was not called are reduced as they are when
// Reduce is called, and named in an *UnusedError unless FindUnused or StaticGraph allows that. So no
// gradient can be left out. Buckets start in one order on all replicas, whatever order the
// gradients become ready in.
//
// After the first step that counts the buckets are filled anew, in the order in which gradients became ready at the
// first participant. Each step begins with a broadcast of its order, some 4 bytes for
// each parameter, which Ready starts and no bucket overtakes; each rank takes it up
// before it starts a bucket. So the ops of a step are the same on all members of
// the quorum, whatever each held before: a newcomer, one that is healed beside the step, a
// spare. What is registered (State) only keeps a newcomer that comes first
// from undoing the order. Options.NoRebuild, Views and FindUnused without StaticGraph leave the first
// buckets, and without a hook of the kinds below there is no such broadcast then.
//
// # Hooks
//
// A [Hook] reduces buckets in another way than AllReduce:
//
//	Compress   sends 16-bit floats (float16, bfloat16), around any other hook
//	PowerSGD   sends low-rank approximations, with error memory: package powersgd
//	PostLocal  stops averaging gradients after some steps, and averages models (Over alone)
//	HookFunc   a function of the user's
//
// A hook that starts several ops one after the other has the same ranks in all of
// them: an attempt at a step that has issued an op ends with its quorum. Which ops a
// hook with a state starts follows from its phase, which comes with the plan of the step
// from the first participant. Its state changes in Commit alone: a discarded step leaves no
// trace, and nothing that other replicas read is written between StartQuorum and
// ShouldCommit. Hooks see gradients as Weigh has weighed them, and reduce with Bucket.Op.
//
// # Memory
//
// Buckets are one piece of memory for each dtype, from Options.Alloc: that of a
// pg/baby.Backend copies nothing on its way to the child. Ready copies gradients in and
// Reduce out, unless they are Views. Gradients on a device are Views of memory that
// Alloc makes there (for CUDA: nccl.Device.Alloc and tensor.OnDevice); AllReduce takes
// them, and hooks of the user's, for which the plan of a step goes by memory of Alloc's on the
// device, so that the group needs no backend for the host; PostLocal takes them too. Compress,
// PowerSGD and Weigh want host memory, and fail the step with an error that says so. A step
// allocates nothing in steady state, over a backend that gives the memory of ops back.
//
// # Uneven batches
//
// An average over replicas counts each replica for the same. Where they have unequal
// numbers of samples, as in the last step of an epoch or under a constant global batch,
// Weigh makes it the average over samples.
//
// # Errors
//
// An op that fails, and what a step is found to lack (*UnusedError and its like), is reported to the
// manager, and the step is discarded; under a manager Reduce returns an error only when ctx has
// ended. Over a plain group (Over) it returns the step's first error. An error of a hook, a plan of
// another model or one that cannot be copied, and a gradient that cannot be weighed abort the group
// as well, in Reduce: the other ranks may wait for ops that will not come. Ready waits for no peer;
// Reduce does, until the ops are done, fail, or ctx ends.
//
// A Reducer, and its hook, is owned by the trainer's goroutine, but for the callbacks of
// states, which a manager calls from another between StartQuorum and ShouldCommit. It does not touch gradients
// between Reduce and the next Ready. It starts no goroutines.
package ddp
