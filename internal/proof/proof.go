// Package proof shows that a process holds a token without sending it: one construction
// for all ports, so that what proves something in one place proves nothing in another.
//
// # Construction
//
// A proof is HMAC-SHA256, keyed with the token, over a purpose and parts: each with
// its length before it, as eight bytes, little-endian, so that no two lists of parts
// give the same bytes. A purpose is a constant of one package that names the protocol and the
// sender's role in it: it is what keeps the domains apart. What makes a proof fresh (nonces of
// both sides, or a time) and what it is bound to are parts, and the caller's affair.
//
// # Concurrency
//
// Everything here is safe for concurrent use.
package proof

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
)

// Bytes is the length of a proof.
const Bytes = sha256.Size

// Of returns what the holder of token says of the parts, for a purpose. An empty token
// is one that everybody holds.
func Of(token []byte, purpose string, parts ...[]byte) []byte {
	m := hmac.New(sha256.New, token)
	var n [8]byte
	add := func(part []byte) {
		binary.LittleEndian.PutUint64(n[:], uint64(len(part)))
		m.Write(n[:])
		m.Write(part)
	}
	add([]byte(purpose))
	for _, part := range parts {
		add(part)
	}
	return m.Sum(nil)
}

// Holds tells whether got is what Of returns. How long it takes depends on lengths only.
func Holds(got, token []byte, purpose string, parts ...[]byte) bool {
	return hmac.Equal(got, Of(token, purpose, parts...))
}
