package guard

import (
	"crypto/x509"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// JoinHolder has the join token of job, derived from t.
func JoinHolder(tb testing.TB, t *Token, job string) *Token {
	tb.Helper()
	all, err := t.JoinTokens(job)
	if err != nil {
		tb.Fatal(err)
	}
	h, err := holding(all, "the test")
	if err != nil {
		tb.Fatal(err)
	}
	return &Token{fixed: h}
}

// CheckOrder is checkOrder.
func (t *Token) CheckOrder(text, method string, body []byte) error {
	return t.checkOrder(text, method, body)
}

// LookAlways makes g look at its files at every use.
func LookAlways(g *Guard) {
	if g.TLS != nil {
		g.TLS.files.every = 0
	}
	if g.Token.file != nil {
		g.Token.file.every = 0
	}
}

// OldProof is a proof that was made ms milliseconds after 1970.
func OldProof(s Secret, method string, ms int64) string {
	p := callProof{version: proofVersion, ms: ms, nonce: make([]byte, nonceBytes)}
	p.mac = macOf(s, p, method, nil)
	return p.String()
}

// Alarm is what TellExpiry goes by, with a clock of the test's.
type Alarm struct {
	a   alarm
	log zerolog.Logger
}

// NewAlarm makes one that writes to log.
func NewAlarm(log zerolog.Logger) *Alarm { return &Alarm{log: log} }

// Look is one look, at now.
func (a *Alarm) Look(now time.Time, e Expiry, problem error) time.Duration {
	return a.a.look(now, e, problem, a.log)
}

// ExpiryOf is that of a certificate of the other side.
func ExpiryOf(c *x509.Certificate) Expiry { return expiryIn("", c) }
