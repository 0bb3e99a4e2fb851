package frame

import (
	"fmt"
	"slices"
)

// NonceBytes is the length of a Nonce.
const NonceBytes = 16

// Nonce is what each side of a socket has drawn for it: a Hello is proved for both,
// so that it holds on no other.
type Nonce [NonceBytes]byte

const (
	// PreambleMagic is what both ends of a new socket write first; the last byte is
	// the version.
	PreambleMagic = "SKERRYT\x05"
	// PreambleBytes is the length of a preamble, JoinBytes of what follows that of
	// a further socket.
	PreambleBytes = len(PreambleMagic) + NonceBytes
	JoinBytes     = NonceBytes + 8

	// joinMagic begins the preamble of who opens one more socket of an edge; behind
	// the nonce follow the nonce that the other side has on the edge's first
	// socket, the new one's index, and zeros.
	joinMagic = "SKERRYS\x03"
	// refusalMagic is what a rank with certificates answers to a preamble in the
	// clear, in the place of its own.
	refusalMagic = "SKERRYX\x01"
	// tlsMagic begins whatever a TLS client says.
	tlsMagic = "\x16\x03"
)

// Opening is what a peer's first bytes make of a socket.
type Opening uint8

const (
	OpensNothing Opening = iota // no preamble
	OpensEdge                   // the first socket of an edge
	OpensStream                 // one more socket of an edge; JoinBytes follow
	OpensTLS                    // the peer takes TLS only: it has refused, or begun
)

// Preamble is what the first socket of an edge begins with, on both sides, and what
// answers a further one.
func Preamble(mine Nonce) []byte { return append([]byte(PreambleMagic), mine[:]...) }

// Join is what a further socket begins with on the side that opens it: the index-th
// of the edge on whose first socket the other side has the nonce theirs.
func Join(mine, theirs Nonce, index int) []byte {
	return slices.Concat([]byte(joinMagic), mine[:], theirs[:], []byte{byte(index)}, make([]byte, JoinBytes-NonceBytes-1))
}

// Refusal answers a preamble in the clear where there is TLS only.
func Refusal() []byte { return append([]byte(refusalMagic), make([]byte, NonceBytes)...) }

// DecodePreamble reads the first PreambleBytes of a socket.
func DecodePreamble(p []byte) (Opening, Nonce) {
	magic, nonce := string(p[:len(PreambleMagic)]), Nonce(p[len(PreambleMagic):PreambleBytes])
	switch {
	case magic == PreambleMagic:
		return OpensEdge, nonce
	case magic == joinMagic:
		return OpensStream, nonce
	case magic == refusalMagic, magic[:len(tlsMagic)] == tlsMagic:
		return OpensTLS, Nonce{}
	}
	return OpensNothing, Nonce{}
}

// DecodeJoin reads the JoinBytes behind the preamble of a further socket.
func DecodeJoin(p []byte) (edge Nonce, index int, err error) {
	if index = int(p[NonceBytes]); index < 1 || index >= MaxStreams {
		return edge, 0, fmt.Errorf("%w: stream %d, want 1 to %d", ErrCorrupt, index, MaxStreams-1)
	}
	return Nonce(p[:NonceBytes]), index, nil
}
