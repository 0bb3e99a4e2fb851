package dist

import (
	"crypto/tls"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/internal/netaddr"
	"github.com/skerry-ft/skerry/store"
)

// Rank 0 listens where the others reach it, unless strangers would reach it too.
func TestStorePlace(t *testing.T) {
	t.Parallel()
	outward, ok := netaddr.Outward()
	if !ok {
		t.Skip("this host has no address beyond loopback")
	}
	own := outward.String()
	named, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	const service = "198.51.100.7" // RFC 5737: no interface's
	for _, c := range []struct {
		advertised, bind string
		others           bool // reach it: it takes a token, or the word that it is open
	}{
		{"127.0.0.1:1", "127.0.0.1:1", false},
		{"127.0.1.1:1", "127.0.1.1:1", false},
		{"[::1]:1", "[::1]:1", false},
		{"localhost:1", "localhost:1", false},
		{own + ":1", own + ":1", true},
		{service + ":1", ":1", true},
		{named + ":1", ":1", true}, // be it known here as loopback: others know it as something else
		{"0.0.0.0:1", "0.0.0.0:1", true},
		{"[::]:1", "[::]:1", true},
		{":1", ":1", false}, // on loopback without a token
	} {
		bind, self, err := storePlace(t.Context(), c.advertised, true)
		if err != nil || bind != c.bind {
			t.Errorf("%s: %q, %v, want %q", c.advertised, bind, err, c.bind)
		}
		if reached, _ := netaddr.Reached(t.Context(), bind); reached && bind != c.advertised && self == "" || netaddr.Loopback(self) {
			t.Errorf("%s: rank 0 reaches it at %q, want an address that tells where others are", c.advertised, self)
		}
		bind, _, err = storePlace(t.Context(), c.advertised, false)
		if refused := errors.Is(err, netaddr.ErrUnguarded); refused != c.others {
			t.Errorf("%s, unguarded: %q, %v, want it refused: %t", c.advertised, bind, err, c.others)
		}
		if c.others && !strings.Contains(err.Error(), "SKERRY_OPEN=1") {
			t.Errorf("%s: %v, want what to set", c.advertised, err)
		}
	}
	if bind, _, err := storePlace(t.Context(), ":1", false); bind != "127.0.0.1:1" || err != nil {
		t.Errorf("no host, unguarded: %q, %v, want loopback", bind, err)
	}
	for advertised, want := range map[string]string{
		"224.0.0.1:1": "multicast", "[ff02::1]:1": "multicast", "nohost.invalid:1": `find the address of "nohost.invalid"`,
	} {
		if _, _, err := storePlace(t.Context(), advertised, true); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", advertised, err, want)
		}
	}
}

// A rendezvous is guarded by a token, or by certificates that clients must show.
func TestRendezvousIsGuarded(t *testing.T) {
	t.Parallel()
	must := &tls.Config{MinVersion: tls.VersionTLS13, ClientAuth: tls.RequireAndVerifyClientCert}
	for name, tc := range map[string]struct {
		r    RendezvousRequest
		want bool
	}{
		"nothing":               {RendezvousRequest{}, false},
		"a token":               {RendezvousRequest{Token: []byte("token")}, true},
		"certificates":          {RendezvousRequest{TLS: &store.TLS{Server: must}}, true},
		"the server's alone":    {RendezvousRequest{TLS: &store.TLS{Server: &tls.Config{MinVersion: tls.VersionTLS13}}}, false},
		"clients need not show": {RendezvousRequest{TLS: &store.TLS{Server: must, Files: store.TLSFiles{Anonymous: true}}}, false},
	} {
		if got := tc.r.guarded(); got != tc.want {
			t.Errorf("%s: guarded %t, want %t", name, got, tc.want)
		}
	}
}
