package paramserver_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/guard/guardtest"
	"github.com/skerry-ft/skerry/pg/tcp"
	"github.com/skerry-ft/skerry/store"
	"github.com/skerry-ft/skerry/store/certs"
	"github.com/skerry-ft/skerry/train/paramserver"
)

// certified are the certificates of a replica.
func certified(t *testing.T, c *guardtest.Cluster, role guard.Role, name string) *store.TLS {
	t.Helper()
	tls, err := certs.FromOptions(c.Options(t, role, name), "")
	if err != nil {
		t.Fatal(err)
	}
	return tls
}

// With TLS requests, store and tensors are encrypted, and who has no certificate of the
// job's CA gets no session; the token is asked for all the same.
func TestTLS(t *testing.T) {
	t.Parallel()
	const token = "a secret of the job"
	ours := guardtest.New(t)
	s := start(t, paramserver.ServerConfig{Forward: serve, Token: []byte(token), TLS: certified(t, ours, guard.Replica, "server")})
	dial := func(token string, tls *store.TLS) (*paramserver.Client, error) {
		return paramserver.Dial(t.Context(), paramserver.ClientConfig{
			Address: s.Addr(), Backend: tcp.New(tcp.Options{}), Token: []byte(token), TLS: tls,
		})
	}
	good := certified(t, ours, guard.Replica, "client")
	for name, c := range map[string]struct {
		token string
		tls   *store.TLS
		want  string
	}{
		"no TLS":               {token, nil, ""},
		"of another CA":        {token, certified(t, guardtest.New(t), guard.Replica, "stranger"), "certificate"},
		"without the token":    {"", good, paramserver.ErrDenied.Error()},
		"with another's token": {"another secret", good, paramserver.ErrDenied.Error()},
	} {
		if _, err := dial(c.token, c.tls); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %q", name, err, c.want)
		}
	}
	if n := s.Sessions(); n != 0 {
		t.Errorf("%d sessions of those who may not", n)
	}
	c, err := dial(token, good)
	if err != nil {
		t.Fatal(err)
	}
	config, _ := c.Config()
	if st, err := store.Open(t.Context(), config.StoreAddress, store.ClientConfig{Token: config.Token}); err == nil {
		st.Close() //nolint:errcheck // it must not be there
		t.Error("the session's store talks to a client in the clear")
	}
	if err := errors.Join(turn(t.Context(), c.Group, 1, turns), c.Close()); err != nil {
		t.Error(err)
	}
	quiet(t, s)
}
