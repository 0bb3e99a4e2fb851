// Package frame is what package tcp writes on the wire: preambles, frames and their
// payloads, as bytes. It encodes and decodes, and bounds what it decodes; it has no
// socket, no lock and no state.
//
// All integers are little-endian. An error of a decoder wraps ErrCorrupt, but for a
// header of another version, and means that the socket is to be closed: nothing
// behind it can be trusted. The result of a decoder that failed is not to be used.
// No decoder keeps what it was given, except that the payload of DecodeBallot lies
// in it. Everything may be called from any goroutine, with values of its own.
//
// # Preambles
//
// Both ends of a socket first write a preamble of 24 bytes; what follows is frames.
// With TLS all of it is inside the TLS connection, which begins with "\x16\x03".
//
//	 0  magic: "SKERRYT\x05"  the first socket of an edge, and every answer
//	           "SKERRYS\x03"  one more socket of an edge: JoinBytes follow
//	           "SKERRYX\x01"  a refusal: this side takes TLS only
//	 8  nonce of 16 bytes; of a refusal zeros
//
//	24  nonce that the other side has on the first socket of the edge
//	40  u8 index of the new socket, 1 to MaxStreams-1; 41 seven zeros
//
// The side that dials says either; the one that accepts says the first or a refusal.
//
// # Headers
//
// A frame is a header of 96 bytes and its payload.
//
//	 0  u16 magic        2  u8 version     3  u8 type
//	 4  u32 length of the payload
//	 8  u64 cluster hash 16 i64 quorum id  24 i64 round   32 u64 seq
//	40  u64 offset       48 u64 total      56 u64 count   64 i64 tag
//	72  i32 root         76 u8 kind 77 u8 dtype 78 u8 reduce op 79 u8 phase
//	80  u32 signature    84 u32 reserved   88 u32 CRC32C of the payload
//	92  u32 CRC32C of bytes 0 to 92
//
// The header's CRC covers the payload's, so the two cover the frame, and the
// payload's alone can be reused: the digest of a ballot is folded from it.
// Header.Decode checks the magic, the CRC and the version, in this order, before it
// takes any field; then that the type is known, that the length is within the type's
// bound, and of data that the phase is 0 or 1 and the payload within its stream. It
// does not check the payload's CRC, which is for the reader of the payload, nor whether
// the frame fits what is going on.
//
//	type    payload              who may send it, and when
//	hello   Hello, ≤ 4 KiB       either side of an edge, on its first socket, once for
//	                             each epoch; before anything else of that epoch
//	data    ≤ MaxPayload         either side, once it has the peer's Hello of the epoch,
//	                             within the window: header and payload count
//	abort   Cause, ≤ 4 KiB       either side, on the first socket, at any time; count is
//	                             how many frames went over further sockets
//	beat    none                 either side, at any time
//	credit  none                 the receiver of data: total bytes of the class phase
//	                             may be sent again; of 0 bytes it says that the Hello
//	                             was checked
//	take    none                 the receiver of a message: the rest of that seq and tag
//	                             may be sent
//
// Phase 0 of data carries inputs, phase 1 results. Offset and total count bytes of the
// stream that the frame belongs to (one peer, one op, one phase). The signature is a
// hash of what all ranks must agree on besides the named fields (lengths, dtypes,
// divisor). A header and its payload are a record of shared memory too.
//
// # Payloads
//
// Of a Hello:
//
//	  0  i64 quorum id   8  u32 group rank  12 u32 rank  16 u32 world size
//	 20  u32 window of each class           28 u32 1 with shared memory, else 0
//	 32  u64 start of each class's records  48 u32 sockets of the edge
//	 52  hash of the further sockets' nonces and bindings
//	 84  hash of the member list
//	116  text: cluster; text: replica id
//	     HMAC-SHA256 under the quorum's token, package proof: over both nonces, the
//	     binding to the TLS connection, and all of the above
//
// A text is a u16 length and so many bytes. DecodeHello bounds every field, and one
// Hello has one encoding. It cannot say whether the proof holds: Hello.Verify does, and
// until then nothing of a Hello is taken for true.
//
// Of an abort:
//
//	 0  u8 code   1 u8 kind   2 i32 rank of the culprit, or -1   6 u64 seq
//	14  text: replica id of the culprit; text: why
//
// DecodeCause bounds the code and the culprit's rank. The texts are a peer's: the id
// is made valid UTF-8, and the reason comes as a pg.RemoteError that names who says so.
//
// Of a ballot's data: u8 1 with a valid digest, else 0; u32 digest; the ballot.
package frame
