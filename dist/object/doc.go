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
// in memory of the CPU, or, where the group has a backend for a device alone, copied there
// and back. It allocates.
//
// Structs go as JSON: [JSON] has the same verbs for values of one type.
//
//	all, err := object.JSON[Metrics]{}.AllGather(ctx, g, mine) // []Metrics
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
//	instead of                      send
//	a struct, or a pointer to one   the verbs of JSON[T]; or a map, or []byte of an encoding of your own
//	a named type (time.Duration)    its underlying value: int64(d)
//	an array                        a slice of it: a[:]
//	[][][]int, map[string][][]int   []any, map[string]any: types nest two deep, values MaxDepth
//	a complex number                its two parts
//	a tensor                        the group's own verbs, without a copy
//
// Keys of maps are scalars, and no NaN. Values are trees: what is shared comes back as
// copies, and what contains itself is refused as too deep. docs/adr/0026 says why the
// encoding is the package's own.
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
