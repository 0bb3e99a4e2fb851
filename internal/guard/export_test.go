package guard

import (
	"time"

	"github.com/rs/zerolog"
)

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
	return proofOf(s, method, nil, ms, make([]byte, nonceBytes))
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
