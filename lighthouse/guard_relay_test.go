package lighthouse_test

import (
	"context"
	"fmt"
	"net"
	"testing"

	"google.golang.org/grpc/metadata"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/guard/guardtest"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
	"github.com/skerry-ft/skerry/quorum"
)

// TestSessionsOfOneHost: who says that it passes on the sessions of many hosts
// (skerry-hop) is believed if it shows what a lighthouse alone has. Else one replica of
// one job could take the sessions of all jobs.
func TestSessionsOfOneHost(t *testing.T) {
	t.Parallel()
	ip := ownAddress(t)
	const bound, tried = 4, 8
	c := guardtest.New(t)
	token := guard.Options{Token: c.Token}
	join := guard.Options{Token: c.JoinToken(t, "vision")}
	server := c.Options(t, guard.Lighthouse, "server")
	c.Sign(t, guard.Party{Role: guard.Lighthouse}, "server", ip)
	open := guard.Options{Open: true}
	for name, tc := range map[string]struct {
		server, caller guard.Options
		openJoins      bool
		believed       bool
	}{
		"join token":                      {server: token, caller: join},
		"join token, joins open":          {server: token, caller: join, openJoins: true},
		"no token, joins open":            {server: token, openJoins: true},
		"operators' token":                {server: token, caller: token, believed: true},
		"operators' token, joins open":    {server: token, caller: token, openJoins: true, believed: true},
		"replica's certificate":           {server: server, caller: c.Options(t, guard.Replica, "replica")},
		"lighthouse's certificate":        {server: server, caller: c.Options(t, guard.Lighthouse, "fellow"), believed: true},
		"lighthouse's, but no token":      {server: server, caller: without(c.Options(t, guard.Lighthouse, "poor")), openJoins: true},
		"nothing is guarded, so it is so": {server: open, caller: open, believed: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := lighthousetest.Start(t, func(cfg *lighthouse.Config) {
				cfg.Listen, cfg.Guard, cfg.OpenJoins = ip+":0", tc.server, tc.openJoins
				cfg.MaxConnsPerHost = bound
			})
			conn := guarded(t, guardtest.Open(t, tc.caller), l.Addr)
			// Waits for a leader, and lets the server know whose connection it is.
			if _, err := skerrypb.NewLighthouseClient(conn).Info(t.Context(), &skerrypb.InfoRequest{}); err != nil {
				t.Fatal(err)
			}
			welcome := 0
			for i := range tried {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				t.Cleanup(cancel)
				st, err := skerrypb.NewLighthouseClient(conn).Session(metadata.AppendToOutgoingContext(ctx, "skerry-hop", "1"))
				if err != nil {
					t.Fatal(err)
				}
				h := wire.Hello{Job: "vision", GroupWorldSize: 1, Hello: hello(quorum.ReplicaID(fmt.Sprint(i))).Hello}
				_ = st.Send(&skerrypb.Up{Message: &skerrypb.Up_Hello{Hello: wire.HelloToProto(h)}}) // Recv says why it was refused
				if down, err := st.Recv(); down.GetWelcome() != nil {
					welcome++
				} else if i < bound {
					t.Fatalf("session %d: %v, %v, want a welcome", i, down, err)
				}
			}
			want := bound
			if tc.believed {
				want = tried
			}
			if welcome != want {
				t.Errorf("%d of %d sessions of one host were welcome, want %d", welcome, tried, want)
			}
		})
	}
}

// without is o without its token.
func without(o guard.Options) guard.Options {
	o.TokenFile, o.Token = "", guard.Secret{}
	return o
}

// ownAddress is one of this machine's that is not loopback, which bounds by host exempt.
func ownAddress(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() && !n.IP.IsLinkLocalUnicast() {
			return n.IP.String()
		}
	}
	t.Skip("no address but loopback")
	return ""
}
