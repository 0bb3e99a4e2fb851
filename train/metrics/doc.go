// Package metrics brings what the ranks have computed of their batches together: sums and
// means of a loss, predictions of all ranks, and embeddings with their gradient.
//
// # Usage
//
//	loss, err := metrics.SyncNumber(ctx, g, loss, tensor.Avg) // a number, or Sync for a tensor
//	op, err := tensor.ParseReduceOp("mean")                   // a reduce op by name
//	all, err := metrics.AllGather(ctx, g, scores)             // (world, batch, …)
//
//	pass, err := metrics.AllGatherGrad(ctx, g, embeddings)    // forward
//	grad, err := pass.Backward(ctx, gradOfAll)                // backward, of this rank's own
//
// Tensors whose shapes differ are gathered by dist.AllGatherUneven.
//
// # Without a group
//
// A nil group is a world of one: the same program runs without others, and gets its own
// values back. What would be refused among others is refused there too.
//
// # Order
//
// All ranks call these verbs, in the order of their other collectives. They block until
// the result is there, ctx ends, or the group is aborted. Under pg.Managed they wait until
// it is known who takes part in the step, a mean divides by the number of those, and
// what fails is returned, besides being reported: a number of a step that is discarded is
// none. A member that does not take part gets the results of the others, and gradients of
// zero.
//
// # Errors
//
// pg.ErrInvalidOp for tensors and reduce ops that do not go together; pg.ErrAborted and
// those of pg.Group. After an error the tensors of Sync are undefined.
//
// # Concurrency
//
// The package has no goroutines and no state.
package metrics
