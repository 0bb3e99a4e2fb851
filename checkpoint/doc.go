// Package checkpoint moves a replica's state to a replica that heals. A state is named
// tensors plus a small string map, laid out as package safetensors does, so nothing that a
// peer sends can execute code.
//
// A [Transport] has a donor side (Metadata, Serve, Pause) and a target side
// (Fetch into a [Mirror]). A donor makes no copy: targets read its tensors, chunk
// by chunk, while they do not change. A target tells by the hash of each chunk what it
// holds already, and only the rest travels, striped over donors; where nothing of a sample
// is there, it compares no more. When a donor dies, a fetch goes on with the others at the byte where it was; when all
// do, the next fetch goes on with what is there.
//
// # Windows
//
// A donor's tensors are stable from Serve to Pause, which is the time of a step's
// forward and backward pass and of its ballot. A reader holds this window for the
// copy of one chunk into memory, then lets go of it and sends: however slow a
// reader is, Pause waits for a chunk's copy, 1 ms or so. A reader that finds the
// window shut waits for the next Serve.
//
// # Running a transport
//
// A transport that needs goroutines has Run(ctx) error beside the interface (see
// [Runner]); its owner calls it, and it returns when ctx ends or after Close.
//
// # Trust
//
// Whatever a peer sends is bounded by the constants of this package and checked
// before it is used: lengths, offsets, overlaps, duplicate names, checksums.
// A target that knows the quorum's token proves it; without a token anybody
// who reaches the listener can read the state.
//
// All transports are safe for concurrent use. Everything that waits ends by
// its context.
package checkpoint
