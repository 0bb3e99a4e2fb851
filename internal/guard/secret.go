package guard

import (
	"crypto/hmac"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"strings"

	"github.com/rs/zerolog"
)

// Bounds of a secret.
const (
	// MinSecretBytes is the shortest token; shorter ones can be guessed.
	MinSecretBytes = 16
	// MaxSecretBytes is the longest.
	MaxSecretBytes = 1 << 10
)

// redacted is all that anybody sees of a secret.
const redacted = "(secret)"

// Secret is bytes that nobody shall see. The zero value is no secret. Copies
// share their bytes; do not change them.
type Secret struct{ bytes []byte }

// NewSecret keeps a copy of b.
func NewSecret(b []byte) Secret { return Secret{append([]byte(nil), b...)} }

// RandomSecret draws one, as text that can stand in a file.
func RandomSecret() Secret {
	var b [32]byte
	rand.Read(b[:]) //nolint:errcheck // documented never to fail
	return Secret{[]byte(hex.EncodeToString(b[:]))}
}

// Reveal returns the bytes: for keys of ciphers and MACs, and for files.
func (s Secret) Reveal() []byte { return s.bytes }

// IsZero says that there is no secret.
func (s Secret) IsZero() bool { return len(s.bytes) == 0 }

// Matches compares in a time that depends on the lengths only; no secret matches
// nothing.
func (s Secret) Matches(b []byte) bool { return !s.IsZero() && hmac.Equal(s.bytes, b) }

// Equal says whether both are the same, or both none.
func (s Secret) Equal(o Secret) bool { return hmac.Equal(s.bytes, o.bytes) }

// String hides the secret.
func (s Secret) String() string {
	if s.IsZero() {
		return ""
	}
	return redacted
}

// GoString hides the secret from %#v.
func (s Secret) GoString() string { return "guard.Secret{" + s.String() + "}" }

// Format hides the secret from every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) } // fmt reports its own errors

// MarshalText hides the secret from JSON and YAML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalZerologObject hides the secret from the log.
func (s Secret) MarshalZerologObject(e *zerolog.Event) { e.Bool("set", !s.IsZero()) }

// check says what is wrong with a secret that somebody typed; where names it.
func (s Secret) check(where string) error {
	if n := len(s.bytes); n < MinSecretBytes || n > MaxSecretBytes {
		return fmt.Errorf("%s holds a token of %d bytes, want %d to %d", where, n, MinSecretBytes, MaxSecretBytes)
	}
	for _, c := range s.bytes {
		if c <= ' ' || c > '~' {
			return fmt.Errorf("%s holds a token with a byte %#02x, want printable characters without spaces", where, c)
		}
	}
	return nil
}

// parseSecrets reads one secret a line; empty lines and such that begin with #
// do not count.
func parseSecrets(where string, text []byte) ([]Secret, error) {
	var found []Secret
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		s := Secret{[]byte(line)}
		if err := s.check(where); err != nil {
			return nil, err
		}
		found = append(found, s)
	}
	switch {
	case len(found) == 0:
		return nil, fmt.Errorf("%s holds no token", where)
	case len(found) > maxTokens:
		return nil, fmt.Errorf("%s holds %d tokens, want at most %d", where, len(found), maxTokens)
	}
	return found, nil
}
