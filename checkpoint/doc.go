// Package checkpoint moves a replica's state to a replica that heals, and
// encodes it. State is named tensors plus a small string map; the codec is
// safetensors, so nothing that a peer sends can execute code.
//
// A [Transport] has a donor side (Metadata, Serve, Disallow) and a target side
// (Fetch). The HTTP transport serves one staged copy at a time; each chunk
// carries a CRC32C; a fetch is striped over donors and resumes from another
// donor when one dies.
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
