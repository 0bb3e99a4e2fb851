// Package guardtest makes throw-away certificates and tokens for tests.
package guardtest

import (
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
	c := &Cluster{Dir: t.TempDir(), Token: guard.RandomSecret()}
	var err error
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

// Sign writes name.pem and name.key, for these hosts; none: this machine.
func (c *Cluster) Sign(t testing.TB, name string, hosts ...string) {
	t.Helper()
	if len(hosts) == 0 {
		hosts = []string{"localhost", "127.0.0.1", "::1"}
	}
	pair, err := c.Authority.Sign(Life, hosts...)
	if err == nil {
		err = pair.Write(c.Dir, name)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Options are those of a process called name, which has certificate and token.
func (c *Cluster) Options(t testing.TB, name string) guard.Options {
	t.Helper()
	c.Sign(t, name)
	return guard.Options{
		TLSCA:     filepath.Join(c.Dir, "ca.pem"),
		TLSCert:   filepath.Join(c.Dir, name+".pem"),
		TLSKey:    filepath.Join(c.Dir, name+".key"),
		TokenFile: filepath.Join(c.Dir, "token"),
	}
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
