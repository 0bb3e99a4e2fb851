package frame

import (
	"errors"
	"testing"
)

// TestPreambles: each of a socket's beginnings is told from the others.
func TestPreambles(t *testing.T) {
	t.Parallel()
	mine, edge := Nonce{1, 2}, Nonce{3, 4}
	tls := append([]byte("\x16\x03\x01"), make([]byte, PreambleBytes)...)
	for _, c := range []struct {
		say   []byte
		want  Opening
		nonce Nonce
	}{
		{Preamble(mine), OpensEdge, mine},
		{Join(mine, edge, 3), OpensStream, mine},
		{Refusal(), OpensTLS, Nonce{}},
		{tls, OpensTLS, Nonce{}},
		{make([]byte, PreambleBytes), OpensNothing, Nonce{}},
		{[]byte("SKERRYT\x04 of another version"), OpensNothing, Nonce{}},
	} {
		if got, nonce := DecodePreamble(c.say); got != c.want || nonce != c.nonce {
			t.Errorf("%q: %d with nonce %x, want %d with %x", c.say, got, nonce, c.want, c.nonce)
		}
	}
	for index := range 256 {
		p := Join(mine, edge, index)
		if len(p) != PreambleBytes+JoinBytes {
			t.Fatalf("%d bytes, want %d", len(p), PreambleBytes+JoinBytes)
		}
		got, i, err := DecodeJoin(p[PreambleBytes:])
		if ok := index > 0 && index < MaxStreams; ok && (err != nil || got != edge || i != index) || !ok && !errors.Is(err, ErrCorrupt) {
			t.Errorf("stream %d: %d of %x, %v", index, i, got, err)
		}
	}
}
