// Package ddp averages gradients over replicas while the backward pass still
// runs, as DistributedDataParallel does.
//
//	red, err := ddp.New(m, params, ddp.Options{})
//	…
//	loss := model.Learn(batch, red.Ready) // while the backward pass runs
//	err = red.Reduce(ctx)                 // the rest, and wait
//
// # Buckets
//
// Parameters are put into buckets in reverse order, since the last layer's
// gradients are ready first. A bucket holds parameters of one dtype, up to
// BucketBytes, the first one up to FirstBucketBytes; a parameter that is larger than that has a bucket of its own. Every
// parameter is in exactly one bucket, and every bucket is reduced in every
// step: gradients that nobody called Ready for are reduced as they are when
// Reduce is called, and named in an *UnusedError unless FindUnused is set. So no
// gradient can be left out.
//
// Buckets start in one order on all replicas, whatever order the gradients
// become ready in.
//
// # Uneven batches
//
// An average over replicas counts each replica for the same. Where they have unequal
// numbers of samples, as in the last step of an epoch or under a constant global batch,
// Weigh makes it the average over samples.
//
// # Errors
//
// An op that fails is reported to the manager, and the step is discarded; no
// method returns it. Over a plain group (Over) Reduce returns it.
//
// A Reducer is owned by the trainer's goroutine. It does not touch gradients
// between Reduce and the next Ready.
package ddp
