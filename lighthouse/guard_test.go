package lighthouse_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/guard/guardtest"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/lighthouse/cluster"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
	"github.com/skerry-ft/skerry/quorum"
)

// guarded dials with a guard.
func guarded(t testing.TB, g *guard.Guard, addr string) *grpc.ClientConn {
	t.Helper()
	conn, err := cluster.Dial(networkOf(t), g, addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // the test is over
	return conn
}

// browser is an HTTP client of g, with cookies, that follows no redirect.
func browser(t testing.TB, g *guard.Guard) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := httpTransport(t)
	if g != nil && g.TLS != nil {
		transport.DialTLSContext = g.TLS.DialOver(transport.DialContext, guard.Party{Role: guard.Lighthouse}, patience)
	}
	return &http.Client{
		Transport: transport, Jar: jar, Timeout: patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// request makes a request with headers, "Host" among them, and returns its status.
func request(t testing.TB, c *http.Client, method, address string, form url.Values, headers ...string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, address, err)
	}
	_, _ = io.Copy(io.Discard, resp.Body) // its status is what matters
	_ = resp.Body.Close()
	return resp.StatusCode
}

// TestTokenGuardsChanges: with a token, all may read, and who holds it may join and
// change.
func TestTokenGuardsChanges(t *testing.T) {
	t.Parallel()
	c := guardtest.New(t)
	o := guard.Options{TokenFile: filepath.Join(c.Dir, "token")}
	l := lighthousetest.Start(t, func(cfg *lighthouse.Config) { cfg.Guard = o })
	open(t, guarded(t, guardtest.Open(t, o), l.Addr), hello("a"))
	stranger := skerrypb.NewLighthouseClient(dial(t, l.Addr))
	holder := skerrypb.NewLighthouseClient(guarded(t, guardtest.Open(t, o), l.Addr))
	other := skerrypb.NewLighthouseClient(guarded(t, &guard.Guard{Token: guard.FixedToken(guard.RandomSecret())}, l.Addr))
	ctx := t.Context()
	for name, call := range map[string]func(skerrypb.LighthouseClient) error{
		"drain": func(c skerrypb.LighthouseClient) error {
			return second(c.Drain(ctx, &skerrypb.DrainRequest{ReplicaId: "a"}))
		},
		"evict": func(c skerrypb.LighthouseClient) error {
			return second(c.Evict(ctx, &skerrypb.EvictRequest{ReplicaId: "a"}))
		},
		"configure": func(c skerrypb.LighthouseClient) error { return second(c.Configure(ctx, &skerrypb.ConfigureRequest{})) },
		"kill": func(c skerrypb.LighthouseClient) error {
			return second(c.KillReplica(ctx, &skerrypb.KillReplicaRequest{ReplicaId: "a"}))
		},
		"delete": func(c skerrypb.LighthouseClient) error {
			return second(c.DeleteJob(ctx, &skerrypb.DeleteJobRequest{Job: "x"}))
		},
	} {
		for who, client := range map[string]skerrypb.LighthouseClient{"a stranger": stranger, "the holder of another token": other} {
			if err := call(client); status.Code(err) != codes.Unauthenticated {
				t.Errorf("%s by %s: %v, want Unauthenticated", name, who, err)
			}
		}
		if err := call(holder); status.Code(err) == codes.Unauthenticated {
			t.Errorf("%s by the holder: %v", name, err)
		}
	}
	if _, err := stranger.Info(ctx, &skerrypb.InfoRequest{}); err != nil {
		t.Errorf("info by a stranger: %v", err)
	}
	bearer := metadata.AppendToOutgoingContext(ctx, guard.BearerMetadata, "Bearer "+string(c.Token.Reveal()))
	if _, err := stranger.Configure(bearer, &skerrypb.ConfigureRequest{}); status.Code(err) == codes.Unauthenticated {
		t.Errorf("with the token itself on loopback: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

// TestMemberDrainsItself: the token of its quorum is enough for that, and for
// nothing else.
func TestMemberDrainsItself(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		c := startCluster(t, 3, lighthousetest.Options{Timing: "slow", Change: func(_ int, cfg *lighthouse.Config) {
			cfg.Guard = guard.Options{Token: guard.NewSecret([]byte("0123456789abcdef"))}
		}})
		leader, follower := c.Servers[c.Leader()], c.Servers[c.Followers()[0]]
		holder := &guard.Guard{Token: guard.FixedToken(guard.NewSecret([]byte("0123456789abcdef")))}
		a, _ := open(t, guarded(t, holder, leader.Addr), hello("a"))
		a.join(quorum.JoinFall, nil)
		q := a.answer(1)
		for _, s := range []*lighthousetest.Server{leader, follower} {
			client := skerrypb.NewLighthouseClient(dial(t, s.Addr))
			req := &skerrypb.DrainRequest{ReplicaId: "a", Reason: "SIGTERM"}
			prove := func(token []byte) metadata.MD {
				proof := guard.FixedToken(guard.NewSecret(token)).Prove(skerrypb.Lighthouse_Drain_FullMethodName, guard.Body(req))
				return metadata.Pairs(guard.MemberMetadata, proof)
			}
			wrong := metadata.NewOutgoingContext(t.Context(), prove(make([]byte, 16)))
			if _, err := client.Drain(wrong, req); status.Code(err) != codes.Unauthenticated {
				t.Errorf("with another quorum's token: %v, want Unauthenticated", err)
			}
			right := metadata.NewOutgoingContext(t.Context(), prove(q.Token[:]))
			if _, err := client.Evict(right, &skerrypb.EvictRequest{ReplicaId: "a"}); status.Code(err) != codes.Unauthenticated {
				t.Errorf("evict by a member: %v, want Unauthenticated", err)
			}
			if _, err := client.Drain(right, req); err != nil {
				t.Errorf("drain by a member: %v", err)
			}
		}
	})
}

// TestMutualTLSOnThePort: RPC and HTTP on the one port, and who is let in.
func TestMutualTLSOnThePort(t *testing.T) {
	t.Parallel()
	c := guardtest.New(t)
	server := c.Options(t, guard.Lighthouse, "server")
	l := lighthousetest.Start(t, func(cfg *lighthouse.Config) { cfg.Guard = server })
	memberOptions := c.Options(t, guard.Replica, "member")
	joined := guardtest.Open(t, memberOptions)
	memberOptions.TokenFile = ""
	member := guardtest.Open(t, memberOptions)
	caOnly := guardtest.Open(t, guard.Options{TLSCA: server.TLSCA})
	foreign := guardtest.Open(t, guardtest.New(t).Options(t, guard.Replica, "stranger"))

	if a, _ := open(t, guarded(t, joined, l.Addr), hello("a")); a == nil {
		t.Error("no session for a member")
	}
	ctx := t.Context()
	for name, g := range map[string]*guard.Guard{"no certificate": caOnly, "another CA": foreign, "no TLS": {}} {
		if _, err := skerrypb.NewLighthouseClient(guarded(t, g, l.Addr)).Info(ctx, &skerrypb.InfoRequest{}); err == nil {
			t.Errorf("RPC with %s was answered", name)
		}
	}
	holder := skerrypb.NewLighthouseClient(guarded(t, guardtest.Open(t, c.Options(t, guard.Operator, "operator")), l.Addr))
	without := skerrypb.NewLighthouseClient(guarded(t, member, l.Addr))
	if _, err := without.Configure(ctx, &skerrypb.ConfigureRequest{}); status.Code(err) != codes.Unauthenticated {
		t.Errorf("a change with a certificate and no token: %v, want Unauthenticated", err)
	}
	if _, err := holder.Configure(ctx, &skerrypb.ConfigureRequest{}); status.Code(err) == codes.Unauthenticated {
		t.Errorf("a change with both: %v", err)
	}
	at := "https://" + l.Addr
	for _, tc := range []struct {
		name string
		g    *guard.Guard
		path string
		want int
	}{
		{"status for a member", member, "/status.json", 200},
		{"metrics for a member", member, "/metrics", 200},
		{"status for a stranger", caOnly, "/status.json", 401},
		{"metrics for a stranger", caOnly, "/metrics", 401},
		{"health for a stranger", caOnly, "/healthz", 200},
		{"the login form for a stranger", caOnly, "/login", 200},
		{"a profile for a member without the token", member, "/debug/pprof/cmdline", 401},
	} {
		if got := request(t, browser(t, tc.g), "GET", at+tc.path, nil); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
	if got := request(t, browser(t, nil), "GET", "http://"+l.Addr+"/status.json", nil); got != 400 {
		t.Errorf("plain HTTP: %d, want 400", got)
	}
}

// TestLogin: a browser without a certificate logs in with the token, and only
// its own page may use the login.
func TestLogin(t *testing.T) {
	t.Parallel()
	c := guardtest.New(t)
	l := lighthousetest.Start(t, func(cfg *lighthouse.Config) { cfg.Guard = c.Options(t, guard.Lighthouse, "server") })
	b := browser(t, guardtest.Open(t, guard.Options{TLSCA: filepath.Join(c.Dir, "ca.pem")}))
	at := "https://" + l.Addr
	action := at + "/jobs/default/replicas/a/drain"
	if got := request(t, b, "GET", at+"/", nil, "Accept", "text/html"); got != http.StatusSeeOther {
		t.Errorf("the page without a login: %d, want a redirect to it", got)
	}
	if got := request(t, b, "POST", at+"/login", url.Values{"token": {"not the token"}}, "Origin", at); got != 401 {
		t.Errorf("a wrong token: %d, want 401", got)
	}
	if got := request(t, b, "POST", at+"/login", url.Values{"token": {string(c.Token.Reveal())}}, "Origin", "https://evil.example"); got != 403 {
		t.Errorf("a login from another site: %d, want 403", got)
	}
	if got := request(t, b, "POST", at+"/login", url.Values{"token": {string(c.Token.Reveal())}}, "Origin", at); got != http.StatusSeeOther {
		t.Fatalf("a login: %d, want 303", got)
	}
	resp, err := b.Get(at + "/")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close() // its header is what matters
	for _, name := range []string{"Content-Security-Policy", "X-Frame-Options", "X-Content-Type-Options"} {
		if resp.Header.Get(name) == "" {
			t.Errorf("the page has no %s", name)
		}
	}
	here, _ := url.Parse(at)
	for _, cookie := range b.Jar.Cookies(here) {
		if strings.Contains(cookie.Value, string(c.Token.Reveal())) {
			t.Error("the cookie holds the token")
		}
	}
	for _, tc := range []struct {
		name   string
		method string
		url    string
		header []string
		want   int
	}{
		{"the page", "GET", at + "/", nil, 200},
		{"a button", "POST", action, []string{"Origin", at}, 404}, // there is no such replica
		{"a button of another site", "POST", action, []string{"Origin", "https://evil.example"}, 403},
		{"a button by an old browser of another site", "POST", action, []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"a cookie without an origin", "POST", action, nil, 403},
		{"a name that is not ours", "POST", action, []string{"Host", "rebound.example", "Origin", "https://rebound.example"}, 421},
	} {
		if got := request(t, b, tc.method, tc.url, nil, tc.header...); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
	fresh := browser(t, guardtest.Open(t, guard.Options{TLSCA: filepath.Join(c.Dir, "ca.pem")}))
	if got := request(t, fresh, "POST", action, nil, "Origin", at, "Cookie", "skerry_login=v1.1.00.00"); got != 401 {
		t.Errorf("a made-up login: %d, want 401", got)
	}
	if got := request(t, fresh, "POST", action, nil, "Authorization", "Bearer "+string(c.Token.Reveal())); got != 404 {
		t.Errorf("a program with the token: %d, want 404", got)
	}
}

// TestReboundNames: on loopback without any guard, a page of another site that
// has its name bound to our address neither reads nor changes anything.
func TestReboundNames(t *testing.T) {
	t.Parallel()
	l := lighthousetest.Start(t, func(cfg *lighthouse.Config) { cfg.AllowHosts = []string{"dash.example"} })
	b, at := browser(t, nil), "http://"+l.Addr
	action := at + "/jobs/default/replicas/a/kill"
	for _, tc := range []struct {
		name, method, url, host string
		want                    int
	}{
		{"a rebound name reads", "GET", at + "/status.json", "rebound.example", 421},
		{"a rebound name kills", "POST", action, "rebound.example", 421},
		{"its address", "GET", at + "/status.json", l.Addr, 200},
		{"localhost", "GET", at + "/status.json", "localhost:29510", 200},
		{"a name that was allowed", "GET", at + "/status.json", "DASH.example.", 200},
		{"another address of this machine", "GET", at + "/status.json", "[::1]:29510", 200},
		{"a program that kills", "POST", action, l.Addr, 404},
	} {
		if got := request(t, b, tc.method, tc.url, nil, "Host", tc.host); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
}

// TestGuardedCluster: three servers with mutual TLS on RPC, raft and HTTP and
// a gossip key; a follower passes on what it may, and a stranger is no server.
func TestGuardedCluster(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		c := guardtest.New(t)
		key := bytes.Repeat([]byte{7}, 32)
		servers := startCluster(t, 3, lighthousetest.Options{Timing: "slow", Change: func(_ int, cfg *lighthouse.Config) {
			cfg.Guard, cfg.Cluster.GossipKeys = c.Options(t, guard.Lighthouse, "server"), func() [][]byte { return [][]byte{key} }
		}})
		leader, follower := servers.Servers[servers.Leader()], servers.Servers[servers.Followers()[0]]
		g := guardtest.Open(t, c.Options(t, guard.Operator, "operator"))
		open(t, guarded(t, guardtest.Open(t, c.Options(t, guard.Replica, "member")), leader.Addr), hello("a"))
		operator := skerrypb.NewLighthouseClient(guarded(t, g, follower.Addr))
		if _, err := operator.Evict(t.Context(), &skerrypb.EvictRequest{ReplicaId: "a", Reason: "by hand"}); err != nil {
			t.Errorf("evict through a follower: %v", err)
		}
		b := browser(t, g)
		if got := request(t, b, "GET", "https://"+follower.Addr+"/status.json", nil); got != 200 {
			t.Errorf("status through a follower: %d", got)
		}
		bearer := []string{"Authorization", "Bearer " + string(c.Token.Reveal())}
		if got := request(t, b, "POST", "https://"+follower.Addr+"/jobs/default/replicas/nobody/drain", nil, bearer...); got != 404 {
			t.Errorf("drain of nobody through a follower: %d, want 404", got)
		}
		if got := request(t, b, "POST", "https://"+follower.Addr+"/jobs/default/replicas/a/drain", nil); got != 401 {
			t.Errorf("drain through a follower without the token: %d, want 401", got)
		}
		stranger := skerrypb.NewClusterClient(guarded(t, &guard.Guard{TLS: g.TLS, Token: guard.FixedToken(guard.Secret{})}, leader.Addr))
		if _, err := stranger.Introduce(t.Context(), &skerrypb.IntroduceRequest{}); status.Code(err) != codes.Unauthenticated {
			t.Errorf("an introduction without the token: %v, want Unauthenticated", err)
		}
	})
}

// TestTokenGuardsRaft: without TLS, raft's connections begin with a proof.
func TestTokenGuardsRaft(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		o := guard.Options{Token: guard.NewSecret([]byte("0123456789abcdef"))}
		servers := startCluster(t, 3, lighthousetest.Options{Timing: "slow", Change: func(_ int, cfg *lighthouse.Config) {
			cfg.Guard = o
		}})
		follower := servers.Servers[servers.Followers()[0]]
		members, err := skerrypb.NewClusterClient(dial(t, follower.Addr)).Members(t.Context(), &skerrypb.MembersRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if len(members.GetMembers()) != 3 {
			t.Errorf("%d servers, want 3", len(members.GetMembers()))
		}
		for _, m := range members.GetMembers() {
			conn, err := t.host.Dial(t.Context(), m.GetRaftAddress())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(patience))
			greeting := []byte("skerry-raft/1\n" + members.GetCluster() + "\n" + m.GetRaftId() + "\n\x00" + strings.Repeat("x", 64))
			_, _ = conn.Write(greeting) // a refusal shows below
			answer, _ := io.ReadAll(io.LimitReader(conn, 1<<10))
			if n := len(answer); n > 24 { // its side of the challenge, and no more
				t.Errorf("raft told a stranger %d bytes", n)
			}
		}
	})
}

// TestTLSVersion: nothing older than TLS 1.3.
func TestTLSVersion(t *testing.T) {
	t.Parallel()
	c := guardtest.New(t)
	l := lighthousetest.Start(t, func(cfg *lighthouse.Config) { cfg.Guard = c.Options(t, guard.Lighthouse, "server") })
	cfg := guardtest.Open(t, c.Options(t, guard.Replica, "member")).TLS.Client(l.Addr, guard.Party{Role: guard.Lighthouse})
	cfg.MinVersion, cfg.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	conn, err := tls.Dial("tcp", l.Addr, cfg)
	if err == nil {
		_ = conn.Close() // it should not be there
		t.Error("TLS 1.2 was accepted")
	}
	if errors.Is(err, io.EOF) {
		t.Errorf("no alert: %v", err)
	}
}
