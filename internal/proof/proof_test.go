package proof

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"testing"
)

var token = []byte("0123456789abcdef")

// TestOf: the construction is the one that the package comment gives.
func TestOf(t *testing.T) {
	t.Parallel()
	m := hmac.New(sha256.New, token)
	m.Write([]byte("\x07\x00\x00\x00\x00\x00\x00\x00purpose\x02\x00\x00\x00\x00\x00\x00\x00ab\x00\x00\x00\x00\x00\x00\x00\x00"))
	want := m.Sum(nil)
	got := Of(token, "purpose", []byte("ab"), nil)
	if !bytes.Equal(got, want) || len(got) != Bytes {
		t.Errorf("got %x, want %x", got, want)
	}
	if !Holds(want, token, "purpose", []byte("ab"), nil) {
		t.Error("does not hold")
	}
}

// TestApart: another token, purpose, part, or another cut between the same bytes
// is another proof.
func TestApart(t *testing.T) {
	t.Parallel()
	said := Of(token, "skerry store client", []byte("ab"), []byte("c"))
	for name, other := range map[string]bool{
		"token":          Holds(said, []byte("0123456789abcdeg"), "skerry store client", []byte("ab"), []byte("c")),
		"no token":       Holds(said, nil, "skerry store client", []byte("ab"), []byte("c")),
		"purpose":        Holds(said, token, "skerry store server", []byte("ab"), []byte("c")),
		"part":           Holds(said, token, "skerry store client", []byte("ab"), []byte("d")),
		"order":          Holds(said, token, "skerry store client", []byte("c"), []byte("ab")),
		"cut":            Holds(said, token, "skerry store client", []byte("a"), []byte("bc")),
		"cut of purpose": Holds(said, token, "skerry store clienta", []byte("b"), []byte("c")),
		"one part":       Holds(said, token, "skerry store client", []byte("abc")),
		"a part more":    Holds(said, token, "skerry store client", []byte("ab"), []byte("c"), nil),
		"half a proof":   Holds(said[:Bytes/2], token, "skerry store client", []byte("ab"), []byte("c")),
		"no proof":       Holds(nil, token, "skerry store client", []byte("ab"), []byte("c")),
	} {
		if other {
			t.Errorf("%s: a proof holds for what it was not made for", name)
		}
	}
}
