package guard

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	// maxTokens bounds the tokens in force at a time: an old and a new one
	// while they are changed, and some to spare.
	maxTokens = 8

	// ProofAge is how old a proof may be, and how far the clocks of the two
	// sides may differ.
	ProofAge = 5 * time.Minute

	proofVersion = "v1"
	nonceBytes   = 16
)

// ErrDenied is returned for a missing or wrong token or proof. The caller may
// do nothing about it but ask a person.
var ErrDenied = errors.New("denied")

// Token is the secret that changing actions need. Its zero value is no token,
// and allows nothing; ask IsZero first. Safe for concurrent use.
type Token struct {
	fixed Secret             // from the environment
	file  *watched[[]Secret] // or from a file
}

// FixedToken is a token that does not change.
func FixedToken(s Secret) *Token { return &Token{fixed: s} }

// openToken reads a file of tokens: one a line, the first to be used, all to be
// accepted. So a token is changed without anybody being locked out.
func openToken(path string) (*Token, error) {
	load := func() ([]Secret, error) {
		text, err := readFile(path)
		if err != nil {
			return nil, fmt.Errorf("read token: %w", err)
		}
		return parseSecrets(path, text)
	}
	file, err := watch(load, path)
	if err != nil {
		return nil, err
	}
	return &Token{file: file}, nil
}

// IsZero says that there is no token: nothing is guarded by it.
func (t *Token) IsZero() bool { return t == nil || t.file == nil && t.fixed.IsZero() }

// renews says that the token comes from a file, which may change.
func (t *Token) renews() bool { return t != nil && t.file != nil }

// Problem is why the file as it now is could not be taken, while an older one is in
// force; nil if all is well.
func (t *Token) Problem() error {
	if !t.renews() {
		return nil
	}
	t.file.get()
	return t.file.problem()
}

// String hides the token.
func (t *Token) String() string {
	if t.IsZero() {
		return ""
	}
	return redacted
}

// GoString hides the token from %#v.
func (t *Token) GoString() string { return "guard.Token{" + t.String() + "}" }

// all are the tokens in force.
func (t *Token) all() []Secret {
	switch {
	case t.IsZero():
		return nil
	case t.file != nil:
		return t.file.get()
	}
	return []Secret{t.fixed}
}

// CheckBearer takes the token as such: from a login form or an Authorization
// header, over TLS or within one machine.
func (t *Token) CheckBearer(given []byte) error {
	ok := false
	for _, s := range t.all() {
		ok = s.Matches(given) || ok // all are compared: the time tells nothing
	}
	if !ok {
		return fmt.Errorf("%w: wrong token", ErrDenied)
	}
	return nil
}

// CheckAuthorization reads an Authorization header: "Bearer TOKEN".
func (t *Token) CheckAuthorization(header string) error {
	scheme, given, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return fmt.Errorf("%w: want a bearer token", ErrDenied)
	}
	return t.CheckBearer([]byte(strings.TrimSpace(given)))
}

// Prove makes a proof that the sender of body to method holds the token. It is
// empty without a token.
func (t *Token) Prove(method string, body []byte) string {
	all := t.all()
	if len(all) == 0 {
		return ""
	}
	var nonce [nonceBytes]byte
	rand.Read(nonce[:]) //nolint:errcheck // documented never to fail
	return proofOf(all[0], method, body, time.Now().UnixMilli(), nonce[:])
}

// proofOf is "v1 TIME NONCE MAC".
func proofOf(s Secret, method string, body []byte, ms int64, nonce []byte) string {
	mac := macOf(s, method, body, ms, nonce)
	return strings.Join([]string{
		proofVersion, strconv.FormatInt(ms, 10), hex.EncodeToString(nonce), hex.EncodeToString(mac),
	}, " ")
}

func macOf(s Secret, method string, body []byte, ms int64, nonce []byte) []byte {
	sum := sha256.Sum256(body)
	m := hmac.New(sha256.New, s.bytes)
	fmt.Fprintf(m, "skerry proof %s\x00%d\x00%x\x00%s\x00%x", proofVersion, ms, nonce, method, sum)
	return m.Sum(nil)
}

// Check checks what Prove made.
func (t *Token) Check(proof, method string, body []byte) error {
	return t.check(proof, method, body, ProofAge)
}

func (t *Token) check(proof, method string, body []byte, life time.Duration) error {
	parts, ms, err := partsOf(proof)
	if err != nil {
		return err
	}
	nonce, err := hex.DecodeString(parts[2])
	if err != nil || len(nonce) != nonceBytes {
		return fmt.Errorf("%w: proof without a nonce", ErrDenied)
	}
	mac, err := hex.DecodeString(parts[3])
	if err != nil {
		return fmt.Errorf("%w: proof without a MAC", ErrDenied)
	}
	ok := false
	for _, s := range t.all() {
		ok = hmac.Equal(mac, macOf(s, method, body, ms, nonce)) || ok
	}
	if !ok {
		return fmt.Errorf("%w: wrong token", ErrDenied)
	}
	return checkAge(ms, life)
}

// partsOf splits a proof, and reads its time.
func partsOf(proof string) (parts []string, ms int64, err error) {
	parts = strings.Split(proof, " ")
	if len(parts) != 4 || parts[0] != proofVersion {
		return nil, 0, fmt.Errorf("%w: want a proof of the token", ErrDenied)
	}
	if ms, err = strconv.ParseInt(parts[1], 10, 64); err != nil {
		return nil, 0, fmt.Errorf("%w: proof without a time", ErrDenied)
	}
	return parts, ms, nil
}

// checkProofTime checks of a proof what can be seen without what it proves.
func checkProofTime(proof string) error {
	_, ms, err := partsOf(proof)
	if err != nil {
		return err
	}
	return checkAge(ms, ProofAge)
}

func checkAge(ms int64, life time.Duration) error {
	if age := time.Since(time.UnixMilli(ms)); age > life || age < -ProofAge {
		return fmt.Errorf("%w: the proof is %v old by this machine's clock, want at most %v: compare the clocks",
			ErrDenied, age.Round(time.Second), life)
	}
	return nil
}

// TokenFromEnv is the token in the named environment variable; empty if it is
// not set.
func TokenFromEnv(name string) (Secret, error) {
	text := strings.TrimSpace(os.Getenv(name))
	if text == "" {
		return Secret{}, nil
	}
	s := NewSecret([]byte(text))
	return s, s.check(name)
}

// How long a login holds, and what it is proved for.
const (
	LoginLife  = 12 * time.Hour
	loginScope = "skerry login"
)

// Login makes what a browser keeps instead of the token: a proof that it was
// shown, good for LoginLife, at every server that has the same token.
func (t *Token) Login() string {
	all := t.all()
	if len(all) == 0 {
		return ""
	}
	var nonce [nonceBytes]byte
	rand.Read(nonce[:]) //nolint:errcheck // documented never to fail
	return strings.ReplaceAll(proofOf(all[0], loginScope, nil, time.Now().UnixMilli(), nonce[:]), " ", ".")
}

// CheckLogin checks what Login made.
func (t *Token) CheckLogin(login string) error {
	return t.check(strings.ReplaceAll(login, ".", " "), loginScope, nil, LoginLife)
}
