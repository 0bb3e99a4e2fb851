package training

import (
	"bytes"
	"context"
	"encoding/hex"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/guard/guardtest"
	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/manager"
	"github.com/skerry-ft/skerry/pg/tcp"
	"github.com/skerry-ft/skerry/store"
)

// logged collects a log, for secrets to be looked for.
type logged struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// guardedLighthouse runs one with the options, logging all to out.
func guardedLighthouse(t *testing.T, o guard.Options, out *logged) *beacon {
	t.Helper()
	cfg := lighthouse.DefaultConfig()
	cfg.Listen, cfg.Guard, cfg.Log = "127.0.0.1:0", o, zerolog.New(out).Level(zerolog.TraceLevel)
	b := &beacon{t: t, cfg: cfg}
	b.start()
	t.Cleanup(b.stop)
	return b
}

// TestGuardedTraining: everything over mutual TLS and with the token: joining,
// healing, draining and killing. A stranger gets nowhere, and no log shows a
// secret.
func TestGuardedTraining(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		options func(c *guardtest.Cluster, role guard.Role, name string) guard.Options
	}{
		{"certificates and token", func(c *guardtest.Cluster, role guard.Role, name string) guard.Options {
			return c.Options(t, role, name)
		}},
		{"certificates and token, collectives in the clear", func(c *guardtest.Cluster, role guard.Role, name string) guard.Options {
			o := c.Options(t, role, name)
			o.TLSData = new(false)
			return o
		}},
		{"token alone", func(c *guardtest.Cluster, _ guard.Role, _ string) guard.Options { return guard.Options{Token: c.Token} }},
		{"certificates and join tokens", func(c *guardtest.Cluster, role guard.Role, name string) guard.Options {
			o := c.Options(t, role, name)
			if role == guard.Replica {
				o.TokenFile, o.Token = "", c.JoinToken(t, "default")
			}
			return o
		}},
		{"join tokens, and one with the operators'", func(c *guardtest.Cluster, role guard.Role, name string) guard.Options {
			if role == guard.Replica && name != "one" {
				return guard.Options{Token: c.JoinToken(t, "default")}
			}
			return guard.Options{Token: c.Token}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c, out := guardtest.New(t), &logged{}
			b := guardedLighthouse(t, tc.options(c, guard.Lighthouse, "lighthouse"), out)
			killed := make(chan string, 1)
			var planes []*tcp.Backend
			join := func(name string) *trainer {
				return start(t, b, name, func(cfg *manager.Config) {
					planes = append(planes, cfg.Backend.(*tcp.Backend))
					cfg.Guard, cfg.Log = tc.options(c, guard.Replica, name), zerolog.New(out).Level(zerolog.TraceLevel)
					cfg.OnKill = func(reason string) { killed <- reason }
				})
			}
			one, two := join("one"), join("two")
			reach(t, 5, one, two)
			three := join("three") // it heals
			reach(t, 5, one, two, three)
			agree(t, one, two, three)
			encryptedAs(t, planes, tc.options(c, guard.Replica, "one").EncryptsData())
			if three.m.Stats().Heals == 0 {
				t.Error("three did not heal")
			}
			operator := guardtest.Open(t, tc.options(c, guard.Operator, "operator"))
			killByLighthouse(t, operator, c.Token, b.addr, two, killed)
			strangersGetNowhere(t, b.addr, one, two)
			three.m.Drain()
			testkit.Eventually(t, "three has drained", func() bool { return one.m.NumParticipants() == 2 })
			reach(t, 5, one, two)
			joins := string(c.JoinToken(t, "default").Reveal())
			for _, secret := range []string{string(c.Token.Reveal()), hex.EncodeToString(c.Token.Reveal()), joins[strings.LastIndex(joins, ":")+1:]} {
				if strings.Contains(out.String(), secret) {
					t.Error("the token is in the log")
				}
			}
		})
	}
}

// encryptedAs looks that all sockets of data planes are over TLS, or none is.
func encryptedAs(t *testing.T, planes []*tcp.Backend, all bool) {
	t.Helper()
	for i, plane := range planes {
		if s := plane.Stats(); s.Streams == 0 || all && s.Encrypted != s.Streams || !all && s.Encrypted > 0 {
			t.Errorf("trainer %d: %d of %d sockets are encrypted, want all: %v", i, s.Encrypted, s.Streams, all)
		}
	}
}

// killByLighthouse kills tr as an operator's program does.
func killByLighthouse(t *testing.T, g *guard.Guard, token guard.Secret, addr string, tr *trainer, killed chan string) {
	t.Helper()
	client, scheme := &http.Client{Timeout: patience}, "http"
	if g.TLS != nil {
		client.Transport, scheme = &http.Transport{DialTLSContext: g.TLS.DialOver(new(net.Dialer).DialContext, guard.Party{Role: guard.Lighthouse}, patience), DisableKeepAlives: true}, "https"
	}
	defer client.CloseIdleConnections()
	at := scheme + "://" + addr + "/jobs/default/replicas/" + url.PathEscape(tr.m.ReplicaID()) + "/kill"
	for _, bearer := range []string{"", "Bearer " + string(guard.RandomSecret().Reveal()), "Bearer " + string(token.Reveal())} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, at, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", bearer)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close() // its status is what matters
		right := bearer == "Bearer "+string(token.Reveal())
		if right != (resp.StatusCode == http.StatusNoContent) || right != (len(killed) == 1) {
			t.Errorf("kill, with the right token %v: %s, %d killed", right, resp.Status, len(killed))
		}
	}
}

// strangersGetNowhere tries what somebody without certificate and token can
// reach: the lighthouse, the managers, the stores, the heals.
func strangersGetNowhere(t *testing.T, addr string, trainers ...*trainer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	nobody := &guard.Guard{}
	dial := func(addr string) *grpc.ClientConn {
		addr = strings.TrimPrefix(strings.TrimPrefix(addr, "https://"), "http://")
		conn, err := grpc.NewClient("passthrough:///"+addr, append(wire.DialOptions(), nobody.DialOptions(guard.Party{}, addr)...)...)
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	refused := func(what string, err error) {
		t.Helper()
		if code := status.Code(err); code != codes.Unauthenticated && code != codes.Unavailable {
			t.Errorf("%s by a stranger: %v, want it refused", what, err)
		}
	}
	conn := dial(addr)
	defer conn.Close()
	_, err := skerrypb.NewLighthouseClient(conn).Evict(ctx, &skerrypb.EvictRequest{ReplicaId: trainers[0].m.ReplicaID()})
	refused("evict", err)
	for _, tr := range trainers {
		conn := dial(tr.m.Address())
		defer conn.Close()
		client := skerrypb.NewManagerClient(conn)
		_, err := client.Kill(ctx, &skerrypb.KillRequest{Message: "by a stranger"})
		refused("kill", err)
		_, err = client.CheckpointMetadata(ctx, &skerrypb.CheckpointMetadataRequest{})
		refused("checkpoint metadata", err)
		_, err = client.Vote(ctx, &skerrypb.VoteRequest{})
		refused("vote", err)
		if s, err := store.Dial(ctx, tr.m.StoreAddress(), store.ClientConfig{Timeout: time.Second}); err == nil {
			_ = s.Close()
			t.Error("a stranger is in the store")
		}
		wrong := store.ClientConfig{Token: make([]byte, 16)}
		// It is held for a while: the token might become known.
		short, cancel := context.WithTimeout(ctx, time.Second)
		if s, err := store.Dial(short, tr.m.StoreAddress(), wrong); err == nil {
			_ = s.Close()
			t.Error("a wrong token opens the store")
		}
		cancel()
	}
}
