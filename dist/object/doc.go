// Package object moves Go values between the ranks of a group: torch.distributed's
// object collectives, without pickle.
//
// # Usage
//
//	names, err := object.AllGather(ctx, g, name) // by rank, on every rank
//	err = object.Broadcast(ctx, g, list, 0)      // list has one length on all ranks
//
// [Gather] and [Scatter] are the other two. All ranks of g call them, in the order of their other
// collectives; under pg.Managed the ranks are the participants of the step, for whom the
// call waits (see pg.Group.Compose). A call is two ops, one of sizes and one of bytes,
// in memory of the CPU. It allocates.
//
// # Values
//
// A closed set of types goes over the wire, each with its own tag, and comes back as it was: nil,
// bool, integers, floats, string, []byte, and slices and maps of these or of any. What
// is none of them is [ErrInvalid], by the name of its type and its place in the value, on all
// ranks alike: a rank that cannot encode says so instead of a size, so that no rank waits
// for it. [Encode] and [Decode] are the encoding by itself. Nothing that is decoded can
// run code.
//
// # Bounds
//
// What a peer announces is believed only within [MaxBytes] for an object and [MaxTotalBytes]
// for a call; what decoding takes in memory, which can be more than the bytes, within
// [MaxMemory] and [MaxTotalMemory]; nesting within [MaxDepth]. Both ends count
// alike, so that the sender is told first.
//
// # Concurrency
//
// The package has no goroutines and no state.
package object
