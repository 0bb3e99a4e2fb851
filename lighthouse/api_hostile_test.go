package lighthouse_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/guard/guardtest"
	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/lighthouse/api"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
)

const becauseTried = `{"reason":"tried"}`

// TestAPINeedsTheToken: what changes needs the token, where there is one, and says so in
// JSON; it is told of who showed it as that.
func TestAPINeedsTheToken(t *testing.T) {
	t.Parallel()
	c := guardtest.New(t)
	o := guard.Options{TokenFile: filepath.Join(c.Dir, "token")}
	l := lighthousetest.Start(t, func(cfg *lighthouse.Config) { cfg.Guard = o })
	open(t, guarded(t, guardtest.Open(t, o), l.Addr), hello("a"))
	drain := l.URL("/api/v1/jobs/default/replicas/a/drain")
	token := "Bearer " + string(c.Token.Reveal())
	for name, tc := range map[string]struct {
		headers []string
		status  int
	}{
		"no token":                        {nil, 401},
		"another token":                   {[]string{"Authorization", "Bearer 0123456789abcdef0123456789abcdef"}, 401},
		"no bearer":                       {[]string{"Authorization", "Basic eDp5"}, 401},
		"another login":                   {[]string{"Cookie", "skerry_login=x.y.z", "Origin", l.URL("")}, 401},
		"said to be passed on":            {[]string{"skerry-hop", "1", "Skerry-By", "root"}, 401},
		"passed on with a made up proof":  {[]string{"skerry-hop", "1", "Skerry-Proof-2", "v2 1 00 00", "Skerry-By", "root"}, 401},
		"passed on with an old-form word": {[]string{"skerry-hop", "1", "Skerry-Proof", oldProof(c, "/api/v1/jobs/default/replicas/a/drain")}, 401},
		"the token, from another site":    {[]string{"Authorization", token, "Origin", "http://evil.example"}, 403},
		"the token, marked cross-site":    {[]string{"Authorization", token, "Sec-Fetch-Site", "cross-site"}, 403},
		"the token, of no origin":         {[]string{"Authorization", token, "Origin", "null"}, 403},
	} {
		resp := call(t, "POST", drain, becauseTried, tc.headers...)
		if code := refused(t, resp, tc.status); tc.status == 401 && (code != "unauthorized" || resp.Header.Get("WWW-Authenticate") == "") {
			t.Errorf("%s: code %q, headers %v", name, code, resp.Header)
		}
	}
	if got := replicaStatus(t, l, "a").State; got != "heard" {
		t.Fatalf("after refused requests a is %s", got)
	}
	if resp := call(t, "GET", l.URL("/api/v1/status"), ""); resp.StatusCode != http.StatusOK {
		t.Errorf("reading without the token: %d", resp.StatusCode)
	}
	if resp := call(t, "POST", drain, becauseTried, "Authorization", token); resp.StatusCode != http.StatusNoContent {
		t.Errorf("with the token: %d", resp.StatusCode)
	}
	testkit.Eventually(t, "who asked is told", func() bool {
		all := events(t, l, "?job=default")
		return len(all) > 0 && all[len(all)-1].By == "token" && all[len(all)-1].From == "127.0.0.1"
	})
}

// oldProof is what vouches for a request without a body on the paths without a version.
func oldProof(c *guardtest.Cluster, path string) string {
	return guard.FixedToken(c.Token).Prove("hop POST "+path, nil)
}

// TestPassedOnOrdersAreProved: a server passes on what was asked of it as it was asked, by
// whom and why. What another makes of the same proof is refused.
func TestPassedOnOrdersAreProved(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		secret := guard.NewSecret([]byte("0123456789abcdef"))
		cluster := startCluster(t, 3, lighthousetest.Options{Timing: "slow", Change: func(_ int, cfg *lighthouse.Config) {
			lighthousetest.Patient(cfg)
			cfg.Guard = guard.Options{Token: secret}
			cfg.Raft.Lease = cfg.Raft.Heartbeat
		}})
		leader, follower := cluster.Servers[cluster.Leader()], cluster.Servers[cluster.Followers()[0]]
		open(t, guarded(t, &guard.Guard{Token: guard.FixedToken(secret)}, leader.Addr), hello("a"))
		const path = "/api/v1/jobs/default/replicas/a/drain"
		bearer := []string{"Authorization", "Bearer 0123456789abcdef", "Skerry-By", "root", "Skerry-From", "10.9.9.9"}
		if resp := call(t, "POST", follower.URL(path), `{"reason":"the fan is loud"}`, bearer...); resp.StatusCode != http.StatusNoContent {
			text, _ := io.ReadAll(resp.Body)
			t.Fatalf("drain through a follower: %d %s", resp.StatusCode, text)
		}
		var told api.Event
		testkit.Eventually(t, "it is told", func() bool {
			for _, e := range events(t, follower, "?job=default") {
				if e.Kind == "draining" {
					told = e
				}
			}
			return told.Seq > 0
		})
		if told.By != "token" || told.From != "127.0.0.1" || told.Reason != "the fan is loud" {
			t.Errorf("told by %q, from %q: %q; want what the follower found out", told.By, told.From, told.Reason)
		}
		if code := refused(t, call(t, "POST", follower.URL("/api/v1/jobs/default/replicas/nobody/drain"), becauseTried, bearer...), 404); code != "unknown replica" {
			t.Errorf("an error of the leader's: %q", code)
		}

		// What a server would prove, and what is made of it on the way.
		const by, from, body = "alice", "10.0.0.7", `{"reason":"as it was asked"}`
		proof := guard.FixedToken(secret).Prove("hop2 POST "+path+"?\n"+by+"\n"+from, []byte(body))
		for name, tc := range map[string]struct {
			by, from, path, body string
			status               int
		}{
			"another reason":  {by, from, path, `{"reason":"made up"}`, 401},
			"another asker":   {"bob", from, path, body, 401},
			"another address": {by, "10.0.0.8", path, body, 401},
			"another verb":    {by, from, strings.Replace(path, "drain", "evict", 1), body, 401},
			"a query":         {by, from, path + "?x=y", body, 401},
			"as it was":       {by, from, path, body, 204},
		} {
			resp := call(t, "POST", leader.URL(tc.path), tc.body, "skerry-hop", "1", "Skerry-Proof-2", proof, "Skerry-By", tc.by, "Skerry-From", tc.from)
			if resp.StatusCode != tc.status {
				text, _ := io.ReadAll(resp.Body)
				t.Errorf("%s: %d %s, want %d", name, resp.StatusCode, text, tc.status)
			}
		}
		servers := answered[api.Servers](t, call(t, "GET", follower.URL("/api/v1/servers"), ""), http.StatusOK)
		if len(servers.Servers) != 3 || servers.Asked != follower.Addr || servers.Answered != leader.Addr {
			t.Errorf("servers %+v, want three, asked %s and answered by %s", servers, follower.Addr, leader.Addr)
		}
	})
}

// TestStreamsFollowTheLeader: a follower passes streams on to the leader; they end when
// another one leads, and who comes again goes on there.
func TestStreamsFollowTheLeader(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		l, others := three(t)
		open(t, dial(t, l.Addr), hello("a"))
		all := []*bufio.Scanner{
			stream(t, others[0].URL("/api/v1/stream")),
			stream(t, others[0].URL("/api/v1/events"), "Accept", "text/event-stream"),
			stream(t, l.URL("/api/v1/stream")),
		}
		if m, ok := nextMessage(t, all[0]); !ok || m.event != "status" || !strings.Contains(m.data, `"leader":"`+l.Addr) {
			t.Errorf("through a follower: %+v", m)
		}
		if err := l.Stop(); err != nil {
			t.Fatal(err)
		}
		for _, s := range all {
			for s.Scan() { // to its end
			}
		}
		testkit.Eventually(t, "a stream of the next leader", func() bool {
			resp := call(t, "GET", others[0].URL("/api/v1/stream"), "")
			return resp.StatusCode == http.StatusOK
		})
	})
}

// TestAPIRefusesCheaply: what is too large, or of a wrong method or path, is refused at once
// and in JSON.
func TestAPIRefusesCheaply(t *testing.T) {
	t.Parallel()
	l := start(t, nil)
	open(t, dial(t, l.Addr), hello("a"))
	at := "/api/v1/jobs/default/replicas/"
	mega := strings.Repeat("x", 1<<20)
	if code := refused(t, call(t, "POST", l.URL(at+"a/drain"), `{"reason":"`+mega+`"}`), http.StatusRequestEntityTooLarge); code != "too large" {
		t.Errorf("a reason of a megabyte: %q", code)
	}
	// Said to be small, and endless.
	req, err := http.NewRequestWithContext(t.Context(), "POST", l.URL(at+"a/drain"), io.MultiReader(strings.NewReader(`{"reason":"`), strings.NewReader(mega)))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	refused(t, resp, http.StatusRequestEntityTooLarge)
	// A name of a megabyte does not fit into a request's header.
	name, err := http.NewRequestWithContext(t.Context(), "POST", l.URL(at+mega+"/drain"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(name); err == nil { // or it was cut while it sent
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("a name of a megabyte: %d", resp.StatusCode)
		}
	}
	for _, tc := range []struct {
		method, path string
		status       int
	}{
		{"GET", at + "a/drain", 405}, {"PUT", at + "a/drain", 405}, {"DELETE", "/api/v1/status", 405}, {"POST", "/api/v1/status", 405},
		{"POST", "/api/v1/events", 405}, {"POST", "/api/v1/stream", 405}, {"GET", "/api/v1/leader/transfer", 405},
		{"GET", "/api/v1/nothing", 404}, {"POST", at + "a/explode", 404}, {"GET", "/api/", 404}, {"GET", "/api/v2/status", 404},
	} {
		resp := call(t, tc.method, l.URL(tc.path), "")
		refused(t, resp, tc.status)
		if tc.status == 405 && resp.Header.Get("Allow") == "" {
			t.Errorf("%s %s: no Allow", tc.method, tc.path)
		}
	}
}

// TestAPIShowsOddNamesHarmlessly: names that try to be something else are refused as
// replicas' or answered as text in JSON, never as a page.
func TestAPIShowsOddNamesHarmlessly(t *testing.T) {
	t.Parallel()
	l := start(t, nil)
	open(t, dial(t, l.Addr), hello("a"))
	for _, id := range []string{
		"<script>alert(1)</script>", `"><img src=x onerror=alert(1)>`, "\u202eevil-rtl", " ", "\u3000", "a\nb", "a\x00b", "\xff", "..", "a/../b",
		strings.Repeat("x", 4096), "%3Cb%3E", "' OR 1=1 --", "</script>",
	} {
		for _, path := range []string{
			"/api/v1/jobs/default/replicas/" + url.PathEscape(id) + "/drain",
			"/api/v1/jobs/" + url.PathEscape(id) + "/replicas/a/evict",
			"/api/v1/jobs/" + url.PathEscape(id) + "/rules",
		} {
			resp := call(t, "POST", l.URL(path), becauseTried)
			text, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			var f api.Failure
			if resp.StatusCode != 400 && resp.StatusCode != 404 || resp.Header.Get("Content-Type") != "application/json" ||
				json.Unmarshal(text, &f) != nil || f.Error.Code == "" || strings.ContainsAny(string(text), "<>") || len(text) > 2_000 ||
				resp.Header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("POST %.80s: %d %s %.300s", path, resp.StatusCode, resp.Header.Get("Content-Type"), text)
			}
		}
	}
	// A reason is text, too.
	if resp := call(t, "POST", l.URL("/api/v1/jobs/default/replicas/a/drain"), `{"reason":"<b>\u202e\u0000\u001b[31m"}`); resp.StatusCode != 204 {
		t.Errorf("an odd reason: %d", resp.StatusCode)
	}
	testkit.Eventually(t, "it is told", func() bool { return len(events(t, l, "?job=default")) > 0 })
	text, err := io.ReadAll(call(t, "GET", l.URL("/api/v1/events"), "").Body)
	if err != nil || strings.ContainsAny(string(text), "<>\x00\x1b") {
		t.Errorf("told %q, %v", text, err)
	}
}

// TestStreamsAreBounded: of many streams of one host some are refused, none of them
// takes the place of what else it asks, and places are given back.
func TestStreamsAreBounded(t *testing.T) {
	t.Parallel()
	l := start(t, nil)
	const many, most = 300, 256 // of this host, for which half of all count
	var all []net.Conn
	var mu sync.Mutex
	codes := make(map[int]int)
	var asking sync.WaitGroup
	next := make(chan struct{}, many)
	for range many {
		next <- struct{}{}
	}
	close(next)
	for range 20 {
		asking.Go(func() {
			for range next {
				conn, code, err := rawGet(l.Addr, "/api/v1/events?follow=1")
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				all, codes[code] = append(all, conn), codes[code]+1
				mu.Unlock()
			}
		})
	}
	asking.Wait()
	if codes[200] != most || codes[503] != many-most {
		t.Errorf("%d streams are answered %v, want %d of them served", many, codes, most)
	}
	if resp := call(t, "GET", l.URL("/api/v1/status"), ""); resp.StatusCode != 200 {
		t.Errorf("status beside them: %d", resp.StatusCode)
	}
	for _, conn := range all {
		_ = conn.Close() // it has served
	}
	testkit.Eventually(t, "there is room again", func() bool {
		conn, code, err := rawGet(l.Addr, "/api/v1/events?follow=1")
		if err != nil {
			return false
		}
		_ = conn.Close()
		return code == 200
	})
}

// rawGet asks for a path and reads the status alone.
func rawGet(addr, path string) (net.Conn, int, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, 0, err
	}
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, 0, errors.Join(err, conn.Close())
	}
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path); err != nil {
		return nil, 0, errors.Join(err, conn.Close())
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return nil, 0, errors.Join(err, conn.Close())
	}
	return conn, resp.StatusCode, nil
}

// TestOrdersNameTheCertificate: who asks with a certificate is told by its name, and what it
// says of itself in headers counts for nothing.
func TestOrdersNameTheCertificate(t *testing.T) {
	t.Parallel()
	c := guardtest.New(t)
	l := lighthousetest.Start(t, func(cfg *lighthouse.Config) { cfg.Guard = c.Options(t, guard.Lighthouse, "server") })
	alice := guardtest.Open(t, c.Options(t, guard.Operator, "alice"))
	open(t, guarded(t, guardtest.Open(t, c.Options(t, guard.Lighthouse, "other")), l.Addr), hello("a"))
	ask := func(method, path, body string, headers ...string) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), method, "https://"+l.Addr+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i+1 < len(headers); i += 2 {
			req.Header.Set(headers[i], headers[i+1])
		}
		resp, err := browser(t, alice).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() }) // the test is over
		return resp
	}
	if resp := ask("POST", "/api/v1/jobs/default/replicas/a/drain", becauseTried, "Authorization", "Bearer "+string(c.Token.Reveal()),
		"skerry-hop", "1", "Skerry-By", "root"); resp.StatusCode != http.StatusNoContent {
		t.Fatalf("drain: %d", resp.StatusCode)
	}
	testkit.Eventually(t, "it is told", func() bool {
		all := answered[[]api.Event](t, ask("GET", "/api/v1/events", ""), http.StatusOK)
		if len(all) == 0 {
			return false
		}
		if e := all[len(all)-1]; e.Kind != "draining" || e.By != "alice" || e.From != "127.0.0.1" {
			t.Errorf("told %+v, want alice's drain", e)
		}
		return true
	})
}

// TestCallsThroughAFollowerNameTheirOperator: who orders by a call, of whichever server, is
// told by the name of the certificate that the asked one saw, and no metadata changes that.
func TestCallsThroughAFollowerNameTheirOperator(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		c := guardtest.New(t)
		cluster := startCluster(t, 3, lighthousetest.Options{Timing: "slow", Change: func(i int, cfg *lighthouse.Config) {
			lighthousetest.Patient(cfg)
			cfg.Guard = c.Options(t, guard.Lighthouse, fmt.Sprint("server-", i))
			cfg.Raft.Lease = cfg.Raft.Heartbeat
		}})
		leader, follower := cluster.Servers[cluster.Leader()], cluster.Servers[cluster.Followers()[0]]
		fellow := guarded(t, guardtest.Open(t, c.Options(t, guard.Lighthouse, "fellow")), leader.Addr)
		open(t, fellow, hello("a"))
		alice := guardtest.Open(t, c.Options(t, guard.Operator, "alice"))
		ctx := metadata.AppendToOutgoingContext(t.Context(), "skerry-by-bin", "root", "skerry-from-bin", "10.9.9.9")
		for _, s := range []*lighthousetest.Server{follower, leader} {
			ctx, grace := ctx, uint32(1000)
			if s == leader {
				ctx = metadata.AppendToOutgoingContext(ctx, "skerry-hop", "1")
				grace++
			}
			req := &skerrypb.ConfigureRequest{GraceMs: &grace}
			if _, err := skerrypb.NewLighthouseClient(guarded(t, alice, s.Addr)).Configure(ctx, req); err != nil {
				t.Fatal(err)
			}
		}
		st := func() (told []api.Event) {
			for _, e := range leaderEvents(t, alice, leader) {
				if e.Kind == "configured" {
					told = append(told, e)
				}
			}
			return told
		}
		testkit.Eventually(t, "both are told", func() bool { return len(st()) == 2 })
		for i, e := range st() {
			if e.By != "alice" || e.From != "127.0.0.1" {
				t.Errorf("order %d is told by %q, from %q; want alice's", i, e.By, e.From)
			}
		}
	})
}

func leaderEvents(t testing.TB, g *guard.Guard, l *lighthousetest.Server) []api.Event {
	t.Helper()
	resp, err := browser(t, g).Get("https://" + l.Addr + "/api/v1/events")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // it has been read
	return answered[[]api.Event](t, resp, http.StatusOK)
}
