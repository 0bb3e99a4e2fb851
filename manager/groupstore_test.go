package manager

import (
	"errors"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/guard/guardtest"
	"github.com/skerry-ft/skerry/internal/nettest"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/store"
	"github.com/skerry-ft/skerry/store/certs"
)

// TestGroupStoreIsEncrypted: a rank with certificates speaks TLS with its group's
// store, and names what to set where that speaks none; told that it is plain, or not
// to encrypt, it speaks none itself.
func TestGroupStoreIsEncrypted(t *testing.T) {
	t.Parallel()
	c := guardtest.New(t)
	o := c.PartyOptions(t, guard.Party{Role: guard.Replica, Job: "vision"}, "replica")
	conf, err := certs.FromOptions(o, "vision")
	if err != nil {
		t.Fatal(err)
	}
	host := nettest.New().Host("both")
	plain, encrypted := groupStoreOf(t, host, nil), groupStoreOf(t, host, conf)
	off := o
	off.TLSData = new(false)
	for _, tc := range []struct {
		what, addr string
		guard      Guard
		told       bool
		want       string // of the error; empty: none
	}{
		{"both with TLS", encrypted, o, false, ""},
		{"a plain store", plain, o, false, "SKERRY_PLAIN_GROUP_STORE=true"},
		{"a plain store, as told", plain, o, true, ""},
		{"a store with TLS, told that it is plain", encrypted, o, true, "SKERRY_TLS_DATA=false"},
		{"a plain store, and no encryption", plain, off, false, ""},
		{"no certificates", encrypted, Guard{}, false, "SKERRY_TLS_CERT"},
	} {
		t.Run(tc.what, func(t *testing.T) {
			t.Parallel()
			m, err := New(Config{
				Job: "vision", ReplicaID: "a", GroupRank: 1, GroupWorldSize: 2, GroupStore: tc.addr, PlainGroupStore: tc.told,
				Backend: pgtest.NewMemory().Backend(), Network: host, Guard: tc.guard,
			})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			s, err := m.openGroupStore(t.Context())
			if err == nil {
				s.Close() //nolint:errcheck // nothing is lost with it
			}
			switch {
			case tc.want == "" && err != nil:
				t.Error(err)
			case tc.want != "" && (!errors.Is(err, store.ErrTLS) || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("got %v, want %v with %q", err, store.ErrTLS, tc.want)
			}
		})
	}
}

func TestPlainGroupStoreFromEnv(t *testing.T) {
	t.Setenv("SKERRY_PLAIN_GROUP_STORE", "true")
	t.Setenv(guard.EnvTLSData, "false")
	var c Config
	if err := c.FromEnv(); err != nil || !c.PlainGroupStore || c.Guard.TLSData == nil || *c.Guard.TLSData {
		t.Errorf("got %t, %v, %v", c.PlainGroupStore, c.Guard.TLSData, err)
	}
	t.Setenv("SKERRY_PLAIN_GROUP_STORE", "perhaps")
	if err := new(Config).FromEnv(); err == nil || !strings.Contains(err.Error(), `SKERRY_PLAIN_GROUP_STORE = "perhaps"`) {
		t.Errorf("got %v", err)
	}
}
