package guard_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/guard/guardtest"
)

// signFor writes a certificate that ends so long from now, which may be before it.
func signFor(t *testing.T, c *guardtest.Cluster, p guard.Party, name string, life time.Duration) {
	t.Helper()
	pair, err := c.Authority.Sign(guard.Request{Party: p, Name: name, Hosts: []string{"127.0.0.1"}, Life: life})
	if err == nil {
		err = pair.Write(c.Dir, name)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A certificate that has ended is refused in an error that names it, its date and
// what to do, on whichever side it is; and one that is renewed is taken at once.
func TestEndedCertificates(t *testing.T) {
	t.Parallel()
	c := guardtest.New(t)
	o := c.Options(t, guard.Lighthouse, "server")
	server := guardtest.Open(t, o)
	guard.LookAlways(server)
	client := guardtest.Open(t, c.Options(t, guard.Replica, "client"))
	guard.LookAlways(client)
	names := func(err error, name, where string) {
		t.Helper()
		e, ok := errors.AsType[*guard.ValidityError](guard.Explain(err, server.TLS.CAs()))
		if !ok {
			t.Fatalf("%v, want an error that says until when it held", err)
		}
		for _, want := range []string{`"` + name + `" ` + where, "ended on " + e.Until.UTC().Format("2006-01-02 15:04"), "lighthouse ca", "compare the clocks"} {
			if !strings.Contains(e.Error(), want) {
				t.Errorf("%v, want %q in it", e, want)
			}
		}
	}
	signFor(t, c, toServer, "server", -time.Minute)
	_, _, err := shake(t, server, client.TLS.Client("127.0.0.1", toServer))
	names(err, "server", "of the other side")
	names(server.CheckOwn("", guard.Lighthouse), "server", "in "+o.TLSCert)

	c.Sign(t, toServer, "server")
	asItWas := client.TLS.Client("127.0.0.1", toServer)
	signFor(t, c, guard.Party{Role: guard.Replica}, "client", -time.Minute)
	_, _, err = shake(t, server, client.TLS.Client("127.0.0.1", toServer))
	names(err, "client", "in "+filepath.Join(c.Dir, "client.pem"))
	// A client whose clock is late does not know that it has ended.
	asItWas.Certificates = client.TLS.Client("127.0.0.1", toServer).Certificates
	_, err, _ = shake(t, server, asItWas)
	names(err, "client", "of the other side")

	c.Sign(t, guard.Party{Role: guard.Replica}, "client")
	if _, serverErr, clientErr := shake(t, server, client.TLS.Client("127.0.0.1", toServer)); serverErr != nil || clientErr != nil {
		t.Errorf("after both were renewed: %v, %v", serverErr, clientErr)
	}
}

// A CA ends, too, and what it signed with it.
func TestEndedCA(t *testing.T) {
	t.Parallel()
	c := guardtest.New(t)
	old, err := guard.NewAuthority(-time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	c.Dir = filepath.Join(t.TempDir(), "old")
	if err := os.Mkdir(c.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(old.Write(c.Dir), guard.WriteSecret(filepath.Join(c.Dir, "token"), c.Token)); err != nil {
		t.Fatal(err)
	}
	c.Authority = old
	server := guardtest.Open(t, c.Options(t, guard.Lighthouse, "server"))
	if e := server.TLS.Expiry(); e.Name != `"skerry CA"` || e.File != filepath.Join(c.Dir, "ca.pem") || !strings.Contains(e.Warning(time.Now()), "ended on") {
		t.Errorf("%+v %q, want the CA, which ended", e, e.Warning(time.Now()))
	}
	client := guardtest.Open(t, guard.Options{TLSCA: filepath.Join(c.Dir, "ca.pem")})
	if _, _, err := shake(t, server, client.TLS.Client("127.0.0.1", toServer)); err == nil ||
		!strings.Contains(guard.Explain(err, server.TLS.CAs()).Error(), "put it into every ca.pem beside the old one") {
		t.Errorf("%v", guard.Explain(err, server.TLS.CAs()))
	}
}

// lines are what was logged, one string each: level, message, reason and error.
func lines(t *testing.T, b *bytes.Buffer) []string {
	t.Helper()
	var all []string
	for d := json.NewDecoder(b); d.More(); {
		var l struct{ Level, Message, Reason, Error string }
		if err := d.Decode(&l); err != nil {
			t.Fatal(err)
		}
		all = append(all, l.Level+": "+l.Message+": "+l.Reason+l.Error)
	}
	return all
}

// Before a certificate ends a line says so: a week before, a day before, and when it
// has; again once a day, then once an hour. The clock may jump past all of it.
func TestAlarm(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	e := guard.Expiry{Name: `"server1"`, File: "server1.pem", From: begin, Until: begin.Add(90 * day)}
	var out bytes.Buffer
	a := guard.NewAlarm(zerolog.New(&out))
	for _, s := range []struct {
		at    time.Duration
		pause time.Duration
		want  string // begins the one line; empty: none
	}{
		{0, 10 * time.Second, ""},
		{82 * day, 10 * time.Second, ""},
		{83*day - 5*time.Second, 5 * time.Second, ""},
		{83 * day, time.Second, `warn: certificate ends soon: certificate "server1" in server1.pem ends on 2026-04-01 00:00:00 UTC, in 168h0m0s: sign it anew`},
		{83*day + time.Hour, time.Second, ""},
		{84 * day, time.Second, "warn: certificate ends soon: "},
		{89 * day, time.Second, "warn: certificate ends soon: "},
		{89*day + 30*time.Minute, time.Second, ""},
		{89*day + time.Hour, time.Second, "warn: certificate ends soon: "},
		{455 * day, time.Second, `error: certificate does not hold: connections that stand go on, new ones are refused: certificate "server1" in server1.pem ended on 2026-04-01 00:00:00 UTC, and this machine's clock says 2027-04-01`},
		{455*day + time.Minute, time.Second, ""},
		{80 * day, 10 * time.Second, "info: certificate renewed: "}, // the clock is right again
		{-day, time.Second, `error: certificate does not hold: connections that stand go on, new ones are refused: certificate "server1" in server1.pem begins on 2026-01-01`},
	} {
		pause := a.Look(begin.Add(s.at), e, nil)
		got := lines(t, &out)
		if s.want == "" && len(got) > 0 || s.want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], s.want)) {
			t.Errorf("after %v: %q, want %q", s.at, got, s.want)
		}
		if pause != s.pause {
			t.Errorf("after %v: looks again after %v, want %v", s.at, pause, s.pause)
		}
	}
	e.From, e.Until = begin.Add(80*day), begin.Add(170*day)
	a.Look(begin.Add(81*day), e, nil)
	if got := lines(t, &out); len(got) != 1 || !strings.HasPrefix(got[0], "info: certificate renewed") {
		t.Errorf("renewed: %q", got)
	}
	for range 2 {
		a.Look(begin.Add(82*day), e, errors.New("half a key"))
	}
	if got := lines(t, &out); len(got) != 1 || !strings.HasPrefix(got[0], "warn: renewed file of the guard not taken: what it held before stays in force: half a key") {
		t.Errorf("half a renewal: %q", got)
	}
	if short := (guard.Expiry{From: begin, Until: begin.Add(day)}); short.Warning(begin.Add(day/2)) != "" || short.Warning(begin.Add(19*time.Hour)) == "" {
		t.Error("one of a day warns in its last quarter")
	}
}
