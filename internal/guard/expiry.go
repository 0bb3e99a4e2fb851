package guard

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/internal/backoff"
	"github.com/skerry-ft/skerry/internal/logkey"
)

// How long before its end a certificate is called to attention: a week, and again a
// day, or a part of the time for which it was signed, if that is less.
const (
	soonBefore   = 7 * 24 * time.Hour
	urgentBefore = 24 * time.Hour
	soonPart     = 4
	urgentPart   = 24

	soonAgain   = 24 * time.Hour // a line is repeated
	urgentAgain = time.Hour

	mostPause  = 10 * time.Second // between two looks at the clock: it may jump
	leastPause = time.Second
)

// dateFormat is how lines show the bounds of a certificate, in UTC.
const dateFormat = "2006-01-02 15:04:05 MST"

// What ends what is said of a certificate that does not hold, or not for long.
const (
	remedy   = "sign it anew (lighthouse ca), running processes read it without a restart"
	remedyCA = "make another CA (lighthouse ca with an empty DIR), put it into every ca.pem beside the old one, then sign all anew"
)

func remedyFor(ca bool) string {
	if ca {
		return remedyCA
	}
	return remedy
}

// Expiry is until when what this process shows holds: its own certificate, or what
// signed that, whichever ends first. Without one of its own it is the CA of the peers.
type Expiry struct {
	Name        string // as errors name it
	File        string
	CA          bool
	From, Until time.Time
}

// IsZero says that there is no certificate.
func (e Expiry) IsZero() bool { return e.Until.IsZero() }

// check says why the certificate does not hold at now, by this machine's clock.
func (e Expiry) check(now time.Time) error {
	if e.IsZero() || !now.After(e.Until) && !now.Before(e.From) {
		return nil
	}
	return &ValidityError{Expiry: e, Now: now}
}

// ValidityError says that a certificate does not hold by this machine's clock: it has
// ended, or not begun. A person must renew it, or set the clock.
type ValidityError struct {
	Expiry           // without a File it is the other side's
	Now    time.Time // what this machine's clock says
}

// Error names the certificate, its date, and what to do.
func (e *ValidityError) Error() string {
	where := "of the other side"
	if e.File != "" {
		where = "in " + e.File
	}
	what, at := "ended on", e.Until
	if e.Now.Before(e.From) {
		what, at = "begins on", e.From
	}
	return fmt.Sprintf("certificate %s %s %s %s, and this machine's clock says %s: %s, or compare the clocks",
		e.Name, where, what, at.UTC().Format(dateFormat), e.Now.UTC().Format(dateFormat), remedyFor(e.CA))
}

// Explain makes of an error of a TLS handshake one that says what a person can do: a
// *ValidityError, if a certificate of the other side, which cas have signed, does not
// hold now. Others are returned as they are: whoever likes can show one that has ended
// and bears any name.
func Explain(err error, cas *x509.CertPool) error {
	if own, ok := errors.AsType[*ValidityError](err); ok {
		return own // without what crypto/tls puts around it
	}
	invalid, ok := errors.AsType[x509.CertificateInvalidError](err)
	chain, verified := errors.AsType[*tls.CertificateVerificationError](err)
	if !ok || !verified || invalid.Reason != x509.Expired || invalid.Cert == nil || !everHeld(chain.UnverifiedCertificates, invalid.Cert, cas) {
		return err
	}
	return &ValidityError{Expiry: expiryIn("", invalid.Cert), Now: time.Now()}
}

// everHeld says whether cas have signed what was shown: whether it held at a bound of
// one of them that does not hold now, or of the first. x509 looks at dates before it
// looks at signatures.
func everHeld(shown []*x509.Certificate, ended *x509.Certificate, cas *x509.CertPool) bool {
	if len(shown) == 0 {
		return false
	}
	between := x509.NewCertPool()
	for _, c := range shown[1:] {
		between.AddCert(c)
	}
	for _, at := range []time.Time{ended.NotAfter, ended.NotBefore, shown[0].NotAfter, shown[0].NotBefore} {
		_, err := shown[0].Verify(x509.VerifyOptions{
			Roots: cas, Intermediates: between, CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
		})
		if err == nil {
			return true
		}
	}
	return false
}

func expiryIn(file string, c *x509.Certificate) Expiry {
	return Expiry{Name: called(c), File: file, CA: c.IsCA, From: c.NotBefore, Until: c.NotAfter}
}

// RefusedLevel is how loud a log is of a connection that was refused for err: a
// certificate that does not hold is for a person to see to, all else is what port
// scans leave behind.
func RefusedLevel(err error) zerolog.Level {
	if _, ok := errors.AsType[*ValidityError](err); ok {
		return zerolog.WarnLevel
	}
	return zerolog.DebugLevel
}

// UntilSeconds is the Unix time at which the certificate of this process ends, as
// metrics have it; 0 without one.
func (g *Guard) UntilSeconds() float64 {
	if g.TLS == nil || g.TLS.Expiry().IsZero() {
		return 0
	}
	return float64(g.TLS.Expiry().Until.Unix())
}

// stage is how near an end is.
type stage uint8

const (
	stageFar stage = iota
	stageSoon
	stageUrgent
	stageOver // or not begun
)

// stage returns that of now, and how long it lasts if the clock goes as it does.
func (e Expiry) stage(now time.Time) (s stage, lasts time.Duration) {
	left, life := e.Until.Sub(now), e.Until.Sub(e.From)
	soon, urgent := min(soonBefore, life/soonPart), min(urgentBefore, life/urgentPart)
	switch {
	case e.IsZero():
		return stageFar, mostPause
	case e.check(now) != nil:
		return stageOver, mostPause
	case left <= urgent:
		return stageUrgent, left
	case left <= soon:
		return stageSoon, left - urgent
	}
	return stageFar, left - soon
}

// Warning says in one line that what this process shows ends soon, or has; empty:
// it holds for long enough.
func (e Expiry) Warning(now time.Time) string {
	switch s, _ := e.stage(now); s {
	case stageOver:
		return e.check(now).Error()
	case stageSoon, stageUrgent:
		return fmt.Sprintf("certificate %s in %s ends on %s, in %v: %s",
			e.Name, e.File, e.Until.UTC().Format(dateFormat), e.Until.Sub(now).Round(time.Second), remedyFor(e.CA))
	case stageFar:
	}
	return ""
}

// alarm is what was said of a certificate. Owned by one goroutine.
type alarm struct {
	stage   stage
	until   time.Time
	said    time.Time // with the monotonic clock
	problem string
}

// look writes a line if there is something new to say, or if it is time to say it
// again, and returns when to look next.
func (a *alarm) look(now time.Time, e Expiry, problem error, log zerolog.Logger) time.Duration {
	s, lasts := e.stage(now)
	again := urgentAgain
	if s == stageSoon {
		again = soonAgain
	}
	renewed := !a.until.IsZero() && !a.until.Equal(e.Until)
	switch {
	case s == stageFar:
		if renewed || a.stage != stageFar {
			log.Info().Str(logkey.Certificate, e.Name).Time(logkey.Until, e.Until).Msg("certificate renewed")
		}
	case s != a.stage || renewed || now.Sub(a.said) >= again:
		level := zerolog.WarnLevel
		if s == stageOver {
			level = zerolog.ErrorLevel
		}
		log.WithLevel(level).Str(logkey.Reason, e.Warning(now)).Msg(s.says())
		a.said = now
	}
	a.stage, a.until = s, e.Until
	text := ""
	if problem != nil {
		text = problem.Error()
	}
	if text != a.problem && text != "" {
		log.Warn().Err(problem).Msg("renewed file of the guard not taken: what it held before stays in force")
	}
	a.problem = text
	if s != stageFar || text != "" {
		return leastPause // a renewal is near
	}
	return min(max(lasts, leastPause), mostPause)
}

func (s stage) says() string {
	if s == stageOver {
		return "certificate does not hold: connections that stand go on, new ones are refused"
	}
	return "certificate ends soon"
}

// TellExpiry writes to log before the certificate of this process ends, and when it
// has, and when files that were renewed cannot be taken: a line for each, repeated
// once a day, in the last day once an hour. It blocks until ctx ends; without files
// it returns at once.
func (g *Guard) TellExpiry(ctx context.Context, log zerolog.Logger) {
	if g.TLS == nil && !g.Token.renews() {
		return
	}
	var a alarm
	for {
		var e Expiry
		problem := g.Token.Problem()
		if g.TLS != nil {
			e = g.TLS.Expiry()
			problem = errors.Join(g.TLS.Problem(), problem)
		}
		if backoff.Sleep(ctx, a.look(time.Now(), e, problem, log)) != nil {
			return
		}
	}
}
