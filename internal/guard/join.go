package guard

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"
)

// A join token is text in three parts, "skerry-join-1:JOB:KEYS": the job is escaped
// as in a query, the keys are one for proofs and the public one of orders, in hex.
// Its form tells it from an operators' token, so it stands wherever one may.
const (
	joinPrefix   = joinMark + "1:"
	joinMark     = "skerry-join-" // no operators' token has it
	joinKeyBytes = sha256.Size

	// What is derived from an operators' token, and for what.
	joinInfo   = "skerry join v1\x00" // then the job
	ordersInfo = "skerry orders v1"
)

// joinKey is what a join token holds. It proves joins of one job, and checks orders
// of operators, without their token.
type joinKey struct {
	job    string
	secret Secret            // for proofs, derived from the operators' token and the job
	orders ed25519.PublicKey // whose orders are an operator's
}

// JoinTokens are the join tokens of a job, one for each operators' token that is in
// force, the first of which is used: so they are changed as it is. They are derived:
// the same token and job give the same.
func (t *Token) JoinTokens(job string) ([]Secret, error) {
	if of := t.Job(); of != "" {
		return nil, fmt.Errorf("the token is a join token, of job %q: want the operators' token, which join tokens are derived from", of)
	}
	var made []Secret
	for _, s := range t.all() {
		public, ok := ordersOf(s).Public().(ed25519.PublicKey)
		if !ok {
			return nil, fmt.Errorf("the key of orders is a %T, want an ed25519.PublicKey", public)
		}
		keys := append(append([]byte(nil), joinSecret(s, job).bytes...), public...)
		text := Secret{[]byte(joinPrefix + url.QueryEscape(job) + ":" + hex.EncodeToString(keys))}
		if _, _, err := parseJoin(text, fmt.Sprintf("job %q", job)); err != nil {
			return nil, err
		}
		made = append(made, text)
	}
	if len(made) == 0 {
		return nil, fmt.Errorf("%w: there is no token to derive from", ErrDenied)
	}
	return made, nil
}

// parseJoin reads a join token; false: s has not the form of one. where names it.
func parseJoin(s Secret, where string) (joinKey, bool, error) {
	rest, ok := strings.CutPrefix(string(s.bytes), joinPrefix)
	if !ok && strings.Contains(strings.ToLower(string(s.bytes)), joinMark) {
		return joinKey{}, true, fmt.Errorf("%s holds what looks like a join token and is none: want %sJOB:KEYS alone, without quotes or a name, "+
			"as skerry token --job prints it", where, joinPrefix)
	}
	if !ok {
		return joinKey{}, false, nil
	}
	escaped, keys, _ := strings.Cut(rest, ":")
	job, err := url.QueryUnescape(escaped)
	if err != nil || job == "" {
		// It is not shown: in a damaged token it may be the keys.
		return joinKey{}, true, fmt.Errorf("%s holds a join token whose job, of %d bytes, is no name: want %sJOB:KEYS, as skerry token --job prints it",
			where, len(escaped), joinPrefix)
	}
	b, err := hex.DecodeString(keys)
	if want := joinKeyBytes + ed25519.PublicKeySize; err != nil || len(b) != want {
		return joinKey{}, true, fmt.Errorf("%s holds a join token with keys of %d hex digits, want %d: was it cut?", where, len(keys), 2*want)
	}
	if err := s.check(where); err != nil {
		return joinKey{}, true, err
	}
	return joinKey{job: job, secret: Secret{b[:joinKeyBytes]}, orders: b[joinKeyBytes:]}, true, nil
}

// held are the tokens in force: operators' ones, or join tokens of one job.
type held struct {
	operators []Secret
	joins     []joinKey
}

// holding sorts tokens by their form. where names what holds them.
func holding(all []Secret, where string) (held, error) {
	var h held
	for _, s := range all {
		k, ok, err := parseJoin(s, where)
		switch {
		case err != nil:
			return held{}, err
		case ok && len(h.joins) > 0 && h.joins[0].job != k.job:
			return held{}, fmt.Errorf("%s holds join tokens of jobs %q and %q, want those of one", where, h.joins[0].job, k.job)
		case ok:
			h.joins = append(h.joins, k)
		default:
			h.operators = append(h.operators, s)
		}
	}
	if len(h.joins) > 0 && len(h.operators) > 0 {
		return held{}, fmt.Errorf("%s holds the operators' token beside a join token of job %q, want one kind", where, h.joins[0].job)
	}
	return h, nil
}

// job is that of join tokens; empty: they are operators' ones, or none.
func (h held) job() string {
	if len(h.joins) > 0 {
		return h.joins[0].job
	}
	return ""
}

// Job is the one job that may be joined with the token; empty: it is the operators',
// and does everything, or there is none.
func (t *Token) Job() string { return t.held().job() }

// Require has fits say which token this process can work with: it is given the job of
// a join token, or nothing for the operators'. Its error is returned now; of a file
// that is renewed later it is a Problem, and what was there before stays in force. It
// may be called from any goroutine, and must not use t.
func (t *Token) Require(fits func(job string) error) error {
	if !t.renews() {
		return fits(t.Job())
	}
	return t.file.require(func(h held) error { return fits(h.job()) })
}

// joinSecrets are those that prove joins of job: derived, or those of the join tokens.
func (t *Token) joinSecrets(job string) []Secret {
	var all []Secret
	h := t.held()
	for _, s := range h.operators {
		all = append(all, joinSecret(s, job))
	}
	for _, k := range h.joins {
		if k.job == job {
			all = append(all, k.secret)
		}
	}
	return all
}

// joinSecret is derived one way: it tells nothing of s, nor of another job's.
func joinSecret(s Secret, job string) Secret { return derived(s, joinInfo+job, joinKeyBytes) }

// ordersOf is the key that signs orders.
func ordersOf(s Secret) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(derived(s, ordersInfo, ed25519.SeedSize).bytes)
}

func derived(s Secret, info string, n int) Secret {
	key, err := hkdf.Key(sha256.New, s.bytes, nil, info, n)
	if err != nil {
		panic(fmt.Sprintf("guard: derive a key of %d bytes: %v", n, err)) // for lengths alone that are none of these
	}
	return Secret{key}
}

// ProveJoin makes a proof that the sender of body to method may join job. It is empty
// without a token, or with a join token of another job.
func (t *Token) ProveJoin(job, method string, body []byte) string {
	all := t.joinSecrets(job)
	if len(all) == 0 {
		return ""
	}
	p := freshProof(proofOfJoin)
	p.job, p.mac = job, macOf(all[0], p, method, body)
	return p.String()
}

// CheckJoin checks what Prove or ProveJoin made. A proof of the operators' token is
// good for every job, one of a join token for its own alone; job empty: it may be
// any, and JobOfProof says which.
func (t *Token) CheckJoin(text, job, method string, body []byte) error {
	p, err := parseProof(text)
	switch {
	case err != nil:
		return err
	case p.version == proofVersion && t.Job() != "":
		return fmt.Errorf("%w: the proof is of the operators' token, and here is a join token of job %q, which cannot check it", ErrDenied, t.Job())
	case p.version != proofOfJoin:
		return t.check(text, method, body, ProofAge)
	case job != "" && p.job != job:
		return fmt.Errorf("%w: the proof is of a join token of job %q, and this is job %q", ErrDenied, Shown(p.job), job)
	}
	if !p.of(t.joinSecrets(p.job), method, body) {
		return fmt.Errorf("%w: wrong join token of job %q: make it anew with skerry token, from the token that the lighthouse has",
			ErrDenied, Shown(p.job))
	}
	return checkAge(p.ms, ProofAge)
}

// JobOfProof is the job that a proof is bound to; empty: it is the operators', or is
// none.
func JobOfProof(text string) string {
	p, err := parseProof(text)
	if err != nil || p.version != proofOfJoin {
		return ""
	}
	return p.job
}

// Order signs a call to a replica that may hold no more than a join token, and so
// cannot check a proof. It is empty without the operators' token.
func (t *Token) Order(method string, body []byte) string {
	all := t.all()
	if len(all) == 0 {
		return ""
	}
	p := freshProof(proofOfOrder)
	p.mac = ed25519.Sign(ordersOf(all[0]), p.signed(method, body))
	return p.String()
}

// checkOrder checks what Order made, by the keys of join tokens.
func (t *Token) checkOrder(text, method string, body []byte) error {
	p, err := parseProof(text)
	if err != nil {
		return err
	}
	for _, k := range t.held().joins {
		if p.version == proofOfOrder && ed25519.Verify(k.orders, p.signed(method, body), p.mac) {
			return checkAge(p.ms, ProofAge)
		}
	}
	return fmt.Errorf("%w: want an order signed with the operators' token", ErrDenied)
}
