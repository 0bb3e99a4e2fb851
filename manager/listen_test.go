package manager

import (
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/netaddr"
	"github.com/skerry-ft/skerry/manager/internal/listen"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/quorum"
)

// A replica listens where its peers are, if that is safe, and else says what to
// set. In real time: it is about this host's addresses, and the names that it knows.
func TestWhereReplicasListen(t *testing.T) {
	t.Parallel()
	outward, ok := netaddr.Outward()
	if !ok {
		t.Skip("this host has no address beyond loopback")
	}
	own := outward.String()
	far := net.JoinHostPort(own, "29510") // an address that is not loopback
	token := guard.Options{Token: guard.NewSecret([]byte(strings.Repeat("t", 32)))}
	for name, tc := range map[string]struct {
		cfg    Config
		listen string   // host of the manager's listener; empty: refused
		want   []string // of the refusal
	}{
		"all on this host":           {Config{Lighthouse: []string{"127.0.0.1:1"}}, "127.0.0.1", nil},
		"by name":                    {Config{Lighthouse: []string{"localhost:1"}}, "127.0.0.1", nil},
		"IPv6's loopback":            {Config{Lighthouse: []string{"[::1]:1"}}, "::1", nil},
		"elsewhere, unguarded":       {Config{Lighthouse: []string{far}}, "", []string{`Listen = "" means`, own + ":0", "SKERRY_TOKEN_FILE", "SKERRY_OPEN=1"}},
		"elsewhere, with a token":    {Config{Lighthouse: []string{far}, Guard: token}, own, nil},
		"elsewhere, open":            {Config{Lighthouse: []string{"127.0.0.1:1", far}, Guard: Guard{Open: true}}, own, nil},
		"elsewhere, on loopback":     {Config{Lighthouse: []string{far}, Guard: token, Listen: "127.0.0.1:0"}, "", []string{"Listen = 127.0.0.1:0 is loopback", far, "SKERRY_LISTEN", own + ":0"}},
		"elsewhere, told loopback":   {Config{Lighthouse: []string{far}, Guard: token, Advertise: "localhost"}, "", []string{"Advertise = localhost is loopback", "SKERRY_ADVERTISE", own}},
		"told, unguarded":            {Config{Lighthouse: []string{"127.0.0.1:1"}, Listen: own + ":0"}, "", []string{"Listen = " + own, "SKERRY_TOKEN_FILE", "SKERRY_OPEN=1"}},
		"every interface, open":      {Config{Lighthouse: []string{far}, Listen: ":0", Advertise: own, Guard: Guard{Open: true}}, "::", nil},
		"advertised beyond the host": {Config{Lighthouse: []string{"127.0.0.1:1"}, Advertise: own, Guard: token}, "::", nil},
		"advertised, unguarded":      {Config{Lighthouse: []string{"127.0.0.1:1"}, Advertise: own}, "", []string{"other hosts reach :0", "SKERRY_OPEN=1"}},
		"a name that nobody knows":   {Config{Lighthouse: []string{"nohost.invalid:1"}}, "", []string{`lighthouse nohost.invalid:1: find the address of "nohost.invalid"`}},
		"one of several is known":    {Config{Lighthouse: []string{"nohost.invalid:1", "127.0.0.1:1"}}, "127.0.0.1", nil},
		"another rank's donor":       {Config{GroupRank: 1, GroupWorldSize: 2, GroupStore: far}, "", []string{`Listen = "" means`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.cfg.ReplicaID, tc.cfg.Backend = "a", pgtest.NewMemory().Backend()
			m, err := New(tc.cfg)
			if err != nil {
				_ = tc.cfg.Backend.Close() // it was never configured
				if tc.listen != "" || strings.Contains(err.Error(), "\n") {
					t.Errorf("%v", err)
				}
				for _, want := range tc.want {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("%v, want %q", err, want)
					}
				}
				return
			}
			defer m.Close() //nolint:errcheck // it never ran
			host, _, err := net.SplitHostPort(m.replica.Addr().String())
			if err != nil || host != tc.listen {
				t.Errorf("listens at %s, %v, want %q", host, err, tc.listen)
			}
			for _, told := range []string{m.replica.Address(), m.StoreAddress(), m.transport.Metadata()} {
				if tc.listen == own && !strings.Contains(told, own+":") {
					t.Errorf("peers are told %s, want %s", told, own)
				}
			}
		})
	}
}

// What strangers would reach is an error of its own kind.
func TestUnguardedIsRefused(t *testing.T) {
	t.Parallel()
	backend := pgtest.NewMemory().Backend()
	defer backend.Close() //nolint:errcheck // it was never configured
	_, err := New(Config{ReplicaID: "a", Lighthouse: []string{"127.0.0.1:1"}, Listen: "0.0.0.0:0", Advertise: "h", Backend: backend})
	if !errors.Is(err, netaddr.ErrUnguarded) {
		t.Errorf("%v, want %v", err, netaddr.ErrUnguarded)
	}
}

func TestListenFromEnv(t *testing.T) {
	for text, want := range map[string]string{"": "", "10.0.0.1": "10.0.0.1:0", "h:7": "h:7", "::1": "[::1]:0", "[::1]:7": "[::1]:7", ":0": ":0"} {
		t.Setenv("SKERRY_LISTEN", text)
		t.Setenv("SKERRY_ADVERTISE", "told")
		t.Setenv("SKERRY_OPEN", "1")
		var c Config
		if err := c.FromEnv(); err != nil || c.Listen != want || c.Advertise != "told" || !c.Guard.Open {
			t.Errorf("SKERRY_LISTEN = %q: Listen = %q, Advertise = %q, Open %t, %v", text, c.Listen, c.Advertise, c.Guard.Open, err)
		}
	}
}

// A replica on loopback that meets one of another host ends, and says what to set:
// they will never reach one another.
func TestAstray(t *testing.T) {
	t.Parallel()
	with := func(address string) *quorum.Quorum {
		return &quorum.Quorum{ID: 7, Members: []quorum.Member{{ReplicaID: "a:1", Address: "http://127.0.0.1:5"}, {ReplicaID: "b:2", Address: address}}}
	}
	const elsewhere = "http://198.51.100.7:5" // RFC 5737: nobody's
	for _, c := range []struct {
		own, other string
		astray     bool
	}{
		{"http://127.0.0.1:5", elsewhere, true},
		{"https://[::1]:5", "https://[2001:db8::7]:5", true},
		{"http://127.0.0.1:5", "http://127.0.0.1:6", false},
		{"http://127.0.0.1:5", "http://name:6", false}, // may be this host
		{"http://192.0.2.9:5", elsewhere, false},
	} {
		err := listen.Astray(c.own, "a:1", with(c.other))
		if (err != nil) != c.astray || c.astray && !strings.Contains(err.Error(), "SKERRY_LISTEN") {
			t.Errorf("%s beside %s: %v, want it refused: %t", c.own, c.other, err, c.astray)
		}
	}
	m, err := New(Config{ReplicaID: "a", Lighthouse: []string{"127.0.0.1:1"}, Backend: pgtest.NewMemory().Backend()})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close() //nolint:errcheck // it never ran
	view := func(address string) *quorum.Quorum {
		return &quorum.Quorum{ID: 7, View: &quorum.View{Ranks: []quorum.RankView{{Primary: "rank 0 of quorum 7", StoreAddress: address}}}}
	}
	for _, q := range []*quorum.Quorum{with(elsewhere), view(elsewhere)} {
		if err := m.admit(q); !errors.Is(err, ErrAstray) {
			t.Errorf("the quorum is taken up, %v, want %v", err, ErrAstray)
		}
	}
	if err := m.admit(view("http://127.0.0.1:6")); err != nil {
		t.Error(err)
	}
}
