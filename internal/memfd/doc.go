// Package memfd is memory that processes of one host share without a name: a
// file that exists only as descriptors and mappings, so it is gone with the last
// process that holds one, whatever that process died of.
//
// # Usage
//
//	s, err := memfd.Create("ring", 1<<20) // the maker
//	... pass s.File() to another process, over a Unix socket or as an extra file
//	t, err := memfd.FromFile(f)           // the taker
//
// # Trust
//
// A segment is sealed before anybody else can hold it: it can neither shrink
// nor grow, and the seals cannot be taken off. So a peer can write any byte of
// it at any time, but can never make an access to [Segment.Bytes] fault. FromFile
// takes nothing that lacks these seals, nothing of huge pages, whose maker could take
// them back, and nothing longer than [MaxBytes].
// What a peer has written is to be read like what came from a socket: once, and
// with every bound checked on the copy.
//
// # Concurrency
//
// A Segment is safe for concurrent use, but for Close: nobody may touch the
// bytes any more when it is called. Bytes that two sides write and read at once
// need atomics, as between goroutines.
package memfd
