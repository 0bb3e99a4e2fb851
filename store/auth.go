package store

import (
	"crypto/rand"
	"crypto/sha256"
	"fmt"

	"github.com/skerry-ft/skerry/internal/proof"
)

const (
	nonceBytes = 16
	proofBytes = proof.Bytes
	// MaxTokenBytes bounds a token.
	MaxTokenBytes = 4 << 10
)

// A token is never sent. The client names it by a digest and both sides prove
// that they hold it, over fresh nonces of both. What this does not do: it
// protects the handshake, not the bytes that follow; against somebody who can
// write into the connection there is TLS, see type TLS.
type (
	tokenID     [sha256.Size]byte
	authRequest struct {
		nonce [nonceBytes]byte
		id    tokenID
	}
)

func idOf(token []byte) tokenID {
	return sha256.Sum256(append([]byte("skerry store token id\x00"), token...))
}

func newNonce() (n [nonceBytes]byte) {
	rand.Read(n[:]) //nolint:errcheck // documented never to fail
	return n
}

// What the two sides prove, each over the client's nonce and the server's.
const (
	proofOfServer = "skerry store server"
	proofOfClient = "skerry store client"
)

func checkToken(token []byte) error {
	if len(token) == 0 || len(token) > MaxTokenBytes {
		return fmt.Errorf("store: token of %d bytes, want 1 to %d", len(token), MaxTokenBytes)
	}
	return nil
}
