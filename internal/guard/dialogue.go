package guard

import (
	"crypto/rand"
	"fmt"
	"io"

	"github.com/skerry-ft/skerry/internal/proof"
)

// dialogueMagic begins what both sides send; the last byte is the version.
const dialogueMagic = "SKERRYG\x02"

// Dialogue proves the token to a peer over a stream and has the peer prove it
// too, by challenge and response: each sends a nonce, then a MAC over both
// nonces, its role and the purpose. A recorded dialogue is worth nothing in
// another one, and neither side learns the token. It guards the beginning of a
// stream, not what follows: against who can write into it there is TLS.
type Dialogue struct {
	Token   *Token
	Purpose string // what it is proved for; the same on both sides
	Server  bool   // which of the two sides this is
}

type nonce = [nonceBytes]byte

// Run speaks with the peer. The caller sets deadlines. ErrDenied: the peer does
// not hold the token.
func (d Dialogue) Run(rw io.ReadWriter) error {
	var mine, theirs nonce
	rand.Read(mine[:]) //nolint:errcheck // documented never to fail
	if _, err := rw.Write(append([]byte(dialogueMagic), mine[:]...)); err != nil {
		return fmt.Errorf("prove the token: %w", err)
	}
	var head [len(dialogueMagic) + nonceBytes]byte
	if _, err := io.ReadFull(rw, head[:]); err != nil {
		return fmt.Errorf("prove the token: %w", err)
	}
	switch magic, version := string(head[:len(dialogueMagic)-1]), head[len(dialogueMagic)-1]; {
	case magic != dialogueMagic[:len(magic)]:
		return fmt.Errorf("%w: the peer proves no token", ErrDenied)
	case version != dialogueMagic[len(magic)]:
		return fmt.Errorf("%w: the peer proves the token in version %d, want %d: it is of another build", ErrDenied, version, dialogueMagic[len(magic)])
	}
	copy(theirs[:], head[len(dialogueMagic):])
	all := d.Token.all()
	if len(all) == 0 {
		return fmt.Errorf("%w: there is no token to prove", ErrDenied)
	}
	// The client proves first: who only dials gets no MAC to work on. It proves
	// its first token, and the server the one that the client proved.
	if !d.Server {
		if _, err := rw.Write(d.mac(all[0], mine, theirs)); err != nil {
			return fmt.Errorf("prove the token: %w", err)
		}
		_, err := d.check(rw, all[:1], theirs, mine)
		return err
	}
	proved, err := d.check(rw, all, theirs, mine)
	if err != nil {
		return err
	}
	if _, err := rw.Write(d.mac(proved, mine, theirs)); err != nil {
		return fmt.Errorf("prove the token: %w", err)
	}
	return nil
}

// check reads the peer's MAC, and says which of the tokens it proves.
func (d Dialogue) check(r io.Reader, all []Secret, from, to nonce) (Secret, error) {
	var got [proof.Bytes]byte
	if _, err := io.ReadFull(r, got[:]); err != nil {
		return Secret{}, fmt.Errorf("%w: the peer went before it proved the token: %w", ErrDenied, err)
	}
	for _, s := range all {
		if proof.Holds(got[:], s.bytes, purposeOf(!d.Server), []byte(d.Purpose), from[:], to[:]) {
			return s, nil
		}
	}
	return Secret{}, fmt.Errorf("%w: the peer does not hold the token", ErrDenied)
}

// mac is what the side with nonce from says to the side with nonce to.
func (d Dialogue) mac(s Secret, from, to nonce) []byte {
	return proof.Of(s.bytes, purposeOf(d.Server), []byte(d.Purpose), from[:], to[:])
}

// purposeOf is the domain of what a server proves, or a client.
func purposeOf(server bool) string {
	if server {
		return "skerry dialogue server"
	}
	return "skerry dialogue client"
}
