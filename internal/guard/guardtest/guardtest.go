// Package guardtest makes throw-away certificates and tokens for tests.
package guardtest

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/guard"
)

// Life is how long the certificates hold.
const Life = time.Hour

// Cluster is a CA in a folder of the test's, and a token.
type Cluster struct {
	Dir       string
	Authority *guard.Authority
	Token     guard.Secret
}

// New makes one.
func New(t testing.TB) *Cluster {
	t.Helper()
	c := &Cluster{Dir: filepath.Join(t.TempDir(), "certs"), Token: guard.RandomSecret()}
	err := os.Mkdir(c.Dir, 0o700) // the test's own may be open to the group
	if err != nil {
		t.Fatal(err)
	}
	if c.Authority, err = guard.NewAuthority(Life); err != nil {
		t.Fatal(err)
	}
	if err := c.Authority.Write(c.Dir); err != nil {
		t.Fatal(err)
	}
	if err := guard.WriteSecret(filepath.Join(c.Dir, "token"), c.Token); err != nil {
		t.Fatal(err)
	}
	return c
}

// Sign writes name.pem and name.key for a party under these hosts; none: this
// machine.
func (c *Cluster) Sign(t testing.TB, p guard.Party, name string, hosts ...string) {
	t.Helper()
	if len(hosts) == 0 {
		hosts = []string{"localhost", "127.0.0.1", "::1"}
	}
	pair, err := c.Authority.Sign(guard.Request{Party: p, Name: name, Hosts: hosts, Life: Life})
	if err == nil {
		err = pair.Write(c.Dir, name)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Options are those of a process of that role called name, which has certificate
// and token.
func (c *Cluster) Options(t testing.TB, role guard.Role, name string) guard.Options {
	t.Helper()
	return c.PartyOptions(t, guard.Party{Role: role}, name)
}

// PartyOptions is Options for a party that may be bound to a job.
func (c *Cluster) PartyOptions(t testing.TB, p guard.Party, name string) guard.Options {
	t.Helper()
	c.Sign(t, p, name)
	return guard.Options{
		TLSCA:     filepath.Join(c.Dir, "ca.pem"),
		TLSCert:   filepath.Join(c.Dir, name+".pem"),
		TLSKey:    filepath.Join(c.Dir, name+".key"),
		TokenFile: filepath.Join(c.Dir, "token"),
	}
}

// JoinToken is the token that lets replicas join job.
func (c *Cluster) JoinToken(t testing.TB, job string) guard.Secret {
	t.Helper()
	all, err := guard.FixedToken(c.Token).JoinTokens(job)
	if err != nil || len(all) != 1 {
		t.Fatalf("%d join tokens, %v", len(all), err)
	}
	return all[0]
}

// Open opens o.
func Open(t testing.TB, o guard.Options) *guard.Guard {
	t.Helper()
	g, err := guard.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}
