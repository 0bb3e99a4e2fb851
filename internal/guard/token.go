package guard

import (
	"errors"
	"fmt"
	"os"
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

	nonceBytes = 16

	// The kinds of proofs: of the operators' token, of a join token, and the signature
	// of an order.
	proofVersion = "v2"
	proofOfJoin  = "j2"
	proofOfOrder = "o1"
)

// ErrDenied is returned for a missing or wrong token or proof. The caller may
// do nothing about it but ask a person.
var ErrDenied = errors.New("denied")

// Token is the secret that changing actions need, or one from which joining a job
// follows and nothing else. Its zero value is no token, and allows nothing; ask
// IsZero first. Safe for concurrent use.
type Token struct {
	fixed held           // from the environment
	file  *watched[held] // or from a file
}

// FixedToken is a token that does not change, whatever its form: an operators' one,
// or a quorum's.
func FixedToken(s Secret) *Token {
	if s.IsZero() {
		return &Token{}
	}
	return &Token{fixed: held{operators: []Secret{s}}}
}

// parseToken is FixedToken of text that may be a join token.
func parseToken(s Secret, where string) (*Token, error) {
	if s.IsZero() {
		return &Token{}, nil
	}
	h, err := holding([]Secret{s}, where)
	return &Token{fixed: h}, err
}

// openToken reads a file of tokens: one a line, the first to be used, all to be
// accepted. So a token is changed without anybody being locked out.
func openToken(path string) (*Token, error) {
	load := func() (held, error) {
		text, err := readFile(path)
		if err != nil {
			return held{}, fmt.Errorf("read token: %w", err)
		}
		all, err := parseSecrets(path, text)
		if err != nil {
			return held{}, err
		}
		return holding(all, path)
	}
	file, err := watch(load, path)
	if err != nil {
		return nil, err
	}
	return &Token{file: file}, nil
}

// IsZero says that there is no token: nothing is guarded by it.
func (t *Token) IsZero() bool {
	return t == nil || t.file == nil && len(t.fixed.operators) == 0 && len(t.fixed.joins) == 0
}

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

// held are the tokens in force.
func (t *Token) held() held {
	switch {
	case t == nil:
		return held{}
	case t.file != nil:
		return t.file.get()
	}
	return t.fixed
}

// all are the operators' tokens in force.
func (t *Token) all() []Secret { return t.held().operators }

// CheckBearer takes the token as such: from a login form or an Authorization
// header, over TLS or within one machine.
func (t *Token) CheckBearer(given []byte) error {
	ok := false
	for _, s := range t.all() {
		ok = s.Matches(given) || ok // all are compared: the time tells nothing
	}
	switch {
	case ok:
		return nil
	case strings.HasPrefix(string(given), joinPrefix):
		return fmt.Errorf("%w: a join token lets a replica join and does nothing else: this needs the operators' token", ErrDenied)
	}
	return fmt.Errorf("%w: wrong token", ErrDenied)
}

// CheckAuthorization reads an Authorization header: "Bearer TOKEN".
func (t *Token) CheckAuthorization(header string) error {
	scheme, given, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return fmt.Errorf("%w: want a bearer token", ErrDenied)
	}
	return t.CheckBearer([]byte(strings.TrimSpace(given)))
}

// Prove makes a proof that the sender of body to method holds the operators' token.
// It is empty without one.
func (t *Token) Prove(method string, body []byte) string {
	all := t.all()
	if len(all) == 0 {
		return ""
	}
	p := freshProof(proofVersion)
	p.mac = macOf(all[0], p, method, body)
	return p.String()
}

// Check checks what Prove made.
func (t *Token) Check(proof, method string, body []byte) error {
	return t.check(proof, method, body, ProofAge)
}

func (t *Token) check(text, method string, body []byte, life time.Duration) error {
	p, err := parseProof(text)
	switch {
	case err != nil:
		return err
	case p.version == proofOfJoin:
		return fmt.Errorf("%w: a join token, of job %q, lets its holder join and do nothing else: this needs the operators' token",
			ErrDenied, Shown(p.job))
	case p.version != proofVersion:
		return errNoProof
	}
	if !p.of(t.all(), method, body) {
		return fmt.Errorf("%w: wrong token", ErrDenied)
	}
	return checkAge(p.ms, life)
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
	return strings.ReplaceAll(t.Prove(loginScope, nil), " ", ".")
}

// CheckLogin checks what Login made.
func (t *Token) CheckLogin(login string) error {
	return t.check(strings.ReplaceAll(login, ".", " "), loginScope, nil, LoginLife)
}
