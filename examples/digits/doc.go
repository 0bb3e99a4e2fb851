// Package digits trains a small neural network on real handwritten digits with
// replicas that may die at any moment. It is the example to read first: the
// model is plain Go, the data is embedded, and [Trainer.Run] is a whole
// fault-tolerant training loop.
//
// The data is the UCI repository's test set of optical recognition of
// handwritten digits, CC BY 4.0; DATA.md says more.
//
// Everything is a function of the seed, the step and the shard: a run without
// faults repeats itself bit for bit, and a replica that was restarted draws the
// batches that it would have drawn.
package digits
