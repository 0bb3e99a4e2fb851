package guard

import (
	"fmt"
	"io"
	"net"
)

// Adoption says how far a server is that is given TLS, a token or a gossip key
// while its cluster runs. All servers take one step before one of them takes the
// next, and so all understand one another all the time.
type Adoption string

// The steps. While one of them is taken, nothing is guarded: who shows nothing is
// let in.
const (
	// AdoptNone is the end, and the usual state: guarded alone.
	AdoptNone Adoption = ""
	// AdoptListen understands what is guarded, and says everything unguarded.
	AdoptListen Adoption = "listen"
	// AdoptSpeak speaks guarded, and still takes what is not.
	AdoptSpeak Adoption = "speak"
)

// check returns what is wrong with a.
func (a Adoption) check() error {
	switch a {
	case AdoptNone, AdoptListen, AdoptSpeak:
		return nil
	}
	return fmt.Errorf("Adopt = %q, want %s, %s or nothing", string(a), AdoptListen, AdoptSpeak)
}

// Lenient says that who shows nothing is let in.
func (a Adoption) Lenient() bool { return a != AdoptNone }

// Speaks is the guard for what this process dials: g, or one that guards nothing
// in the first step of an adoption.
func (g *Guard) Speaks() *Guard {
	if g.Adopt == AdoptListen {
		return &Guard{Token: FixedToken(Secret{})}
	}
	return g
}

// Opening is how a connection begins, as far as its first byte tells.
type Opening int

// What a connection may begin with.
const (
	OpensOther    Opening = iota
	OpensTLS              // a TLS handshake
	OpensDialogue         // a Dialogue
)

// Peek reads the first byte of a connection, and gives it back to who reads the
// connection that is returned. The caller sets deadlines.
func Peek(conn net.Conn) (Opening, net.Conn, error) {
	begun := &peeked{Conn: conn}
	if _, err := io.ReadFull(conn, begun.first[:]); err != nil {
		return OpensOther, nil, fmt.Errorf("read the first byte: %w", err)
	}
	switch begun.first[0] {
	case tlsHandshake:
		return OpensTLS, begun, nil
	case dialogueMagic[0]:
		return OpensDialogue, begun, nil
	}
	return OpensOther, begun, nil
}
