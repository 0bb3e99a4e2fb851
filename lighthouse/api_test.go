package lighthouse_test

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/lighthouse/api"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
	"github.com/skerry-ft/skerry/quorum"
)

// call makes a request with a body and headers, and returns the answer, whose body the
// test closes.
func call(t testing.TB, method, url, body string, headers ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := httpClient(t).Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() }) // the test is over
	return resp
}

// answered reads an answer of that status as JSON.
func answered[T any](t testing.TB, resp *http.Response, status int) (v T) {
	t.Helper()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != status {
		t.Fatalf("%s %s: %d %s, want %d", resp.Request.Method, resp.Request.URL, resp.StatusCode, text, status)
	}
	if kind := resp.Header.Get("Content-Type"); kind != "application/json" {
		t.Errorf("%s: content type %q", resp.Request.URL, kind)
	}
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatalf("%s: %v in %s", resp.Request.URL, err, text)
	}
	return v
}

// refused reads an error of the API, and returns its code.
func refused(t testing.TB, resp *http.Response, status int) string {
	t.Helper()
	f := answered[api.Failure](t, resp, status)
	if f.Error.Code == "" || f.Error.Message == "" {
		t.Errorf("%s: an error without a code or a message: %+v", resp.Request.URL, f)
	}
	return f.Error.Code
}

func TestAPIStatus(t *testing.T) {
	t.Parallel()
	l := start(t, minReplicas(2))
	_, q := form(t, l.Addr, "a", "b")
	resp := call(t, "GET", l.URL("/api/v1/status?job=default"), "")
	o := answered[api.Overview](t, resp, http.StatusOK)
	if len(o.Jobs) != 1 || o.Jobs[0].Job != "default" || o.Jobs[0].QuorumID != q.ID || o.Jobs[0].State != "training" ||
		len(o.Jobs[0].Replicas) != 2 || o.Jobs[0].MinReplicas != 2 || o.Jobs[0].LastSeq == 0 || o.Jobs[0].StateSinceMs == 0 ||
		!o.Leads || o.Leader != l.Addr || o.StartedMs == 0 {
		t.Errorf("status %+v", o)
	}
	if code := refused(t, call(t, "GET", l.URL("/api/v1/status?job=other"), ""), http.StatusNotFound); code != "unknown job" {
		t.Errorf("of a job that is not there: %q", code)
	}
	servers := answered[api.Servers](t, call(t, "GET", l.URL("/api/v1/servers"), ""), http.StatusOK)
	if len(servers.Servers) != 1 || !servers.Servers[0].Leader || servers.Asked != l.Addr || servers.Answered != l.Addr {
		t.Errorf("servers %+v", servers)
	}
	if resp := call(t, "GET", l.URL("/livez"), ""); resp.StatusCode != http.StatusOK {
		t.Errorf("/livez: %d", resp.StatusCode)
	}
}

// What a client has already is not sent again, and what is sent is compressed for those
// who take that.
func TestAPIAnswersAreSmall(t *testing.T) {
	t.Parallel()
	l := start(t, minReplicas(1))
	r, _ := open(t, dial(t, l.Addr), hello("a"))
	r.join(quorum.JoinFall, nil)
	r.answer(1)
	for _, path := range []string{"/api/v1/status", "/api/v1/openapi.json", "/api/v1/events", "/api/v1/servers"} {
		resp := call(t, "GET", l.URL(path), "", "Accept-Encoding", "gzip")
		tag := resp.Header.Get("ETag")
		plain, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK || tag == "" {
			t.Fatalf("%s: %d, ETag %q, %v", path, resp.StatusCode, tag, err)
		}
		if resp.Header.Get("Content-Encoding") == "gzip" {
			z, err := gzip.NewReader(strings.NewReader(string(plain)))
			if err != nil {
				t.Fatal(err)
			}
			if plain, err = io.ReadAll(z); err != nil {
				t.Fatal(err)
			}
		} else if len(plain) > 2_000 {
			t.Errorf("%s: %d bytes, and not compressed", path, len(plain))
		}
		if !json.Valid(plain) {
			t.Errorf("%s: not JSON: %.100s", path, plain)
		}
		again := call(t, "GET", l.URL(path), "", "If-None-Match", `"x", `+tag)
		if rest, _ := io.ReadAll(again.Body); again.StatusCode != http.StatusNotModified || len(rest) > 0 {
			t.Errorf("%s again: %d with %d bytes, want 304", path, again.StatusCode, len(rest))
		}
	}
}

func events(t testing.TB, l *lighthousetest.Server, query string) []api.Event {
	t.Helper()
	return answered[[]api.Event](t, call(t, "GET", l.URL("/api/v1/events"+query), ""), http.StatusOK)
}

func kinds(all []api.Event) (kinds []string) {
	for _, e := range all {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

func TestAPIEvents(t *testing.T) {
	t.Parallel()
	l := start(t, minReplicas(2))
	form(t, l.Addr, "a", "b")
	all := events(t, l, "?job=default")
	if len(all) == 0 || all[0].Kind != "formed" || all[0].Members != 2 || all[0].Text == "" || all[0].Job != "default" {
		t.Fatalf("events %+v", all)
	}
	last := all[len(all)-1].Seq
	if more := events(t, l, "?job=default&since=9223372036854775807"); len(more) != 0 {
		t.Errorf("after the last number: %v", more)
	}
	for query, code := range map[string]int{
		"?since=9223372036854775808": 400, "?since=-1": 400, "?since=x": 400, "?since=t": 400, "?limit=0": 400, "?limit=1001": 400,
		"?limit=1e9": 400, "?follow=2": 400, "?job=none": 404, "?job=a%20b": 400, "?job=%E2%80%AE": 400,
	} {
		refused(t, call(t, "GET", l.URL("/api/v1/events"+query), ""), code)
	}

	// Who follows is told what is there, and then what comes.
	lines := bufio.NewScanner(call(t, "GET", l.URL("/api/v1/events?job=default&follow=1"), "").Body)
	sse := bufio.NewScanner(call(t, "GET", l.URL("/api/v1/events?job=default"), "", "Accept", "text/event-stream", "Last-Event-ID", jsonOf(t, last)).Body)
	everything := bufio.NewScanner(call(t, "GET", l.URL("/api/v1/events"), "", "Accept", "application/x-ndjson").Body)
	drain := call(t, "POST", l.URL("/api/v1/jobs/default/replicas/a/drain"), `{"reason":"rack 7 is switched off"}`)
	if drain.StatusCode != http.StatusNoContent {
		t.Fatalf("drain: %d", drain.StatusCode)
	}
	for name, s := range map[string]*bufio.Scanner{"of one job": lines, "of all": everything} {
		for {
			var e api.Event
			if !s.Scan() || json.Unmarshal(s.Bytes(), &e) != nil {
				t.Fatalf("%s: the feed ended with %q, %v", name, s.Text(), s.Err())
			}
			if e.Kind == "draining" {
				if e.Reason != "rack 7 is switched off" || e.By != "127.0.0.1" || e.From != "127.0.0.1" || e.Replica != "a" ||
					!strings.Contains(e.Text, "rack 7") {
					t.Errorf("%s: told %+v", name, e)
				}
				break
			}
		}
	}
	var got []string
	for sse.Scan() && sse.Text() != "" {
		got = append(got, sse.Text())
	}
	if len(got) != 3 || got[0] != "event: told" || got[1] <= "id: "+jsonOf(t, last) || !strings.Contains(got[2], `"draining"`) {
		t.Errorf("after %d: told %q", last, got)
	}
}

func jsonOf(t testing.TB, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// message is one of a stream's.
type message struct{ event, id, data string }

// nextMessage reads the next that is no ping.
func nextMessage(t testing.TB, s *bufio.Scanner) (m message, ok bool) {
	t.Helper()
	for s.Scan() {
		name, value, _ := strings.Cut(s.Text(), ": ")
		switch name {
		case "event":
			m.event = value
		case "id":
			m.id = value
		case "data":
			m.data = value
		}
		if s.Text() == "" && m.event != "" {
			return m, true
		}
	}
	return m, false
}

func stream(t testing.TB, url string, headers ...string) *bufio.Scanner {
	t.Helper()
	resp := call(t, "GET", url, "", headers...)
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("GET %s: %d %s", url, resp.StatusCode, resp.Header.Get("Content-Type"))
	}
	s := bufio.NewScanner(resp.Body)
	s.Buffer(nil, 1<<20)
	return s
}

func TestAPIStream(t *testing.T) {
	t.Parallel()
	l := start(t, minReplicas(1))
	r, _ := open(t, dial(t, l.Addr), hello("a"))
	r.join(quorum.JoinFall, nil)
	q := r.answer(1)
	s := stream(t, l.URL("/api/v1/stream"))
	m, _ := nextMessage(t, s)
	var d api.Document
	if err := json.Unmarshal([]byte(m.data), &d); err != nil || m.event != "status" {
		t.Fatalf("first told %+v: %v", m, err)
	}
	if j := d.Jobs["default"]; j.QuorumID != q.ID || j.Replicas["a"].State == "" || len(d.Servers) != 1 || d.NowMs == 0 {
		t.Errorf("the state %+v", d)
	}
	if resp := call(t, "POST", l.URL("/api/v1/jobs/default/replicas/a/drain"), `{"reason":"x"}`); resp.StatusCode != http.StatusNoContent {
		t.Fatalf("drain: %d", resp.StatusCode)
	}
	var told, patched bool
	for !told || !patched {
		m, ok := nextMessage(t, s)
		if !ok {
			t.Fatalf("the stream ended: %v", s.Err())
		}
		told = told || m.event == "told" && strings.Contains(m.data, `"draining"`)
		patched = patched || m.event == "patch" && strings.Contains(m.data, `"replicas":{"a":{`) && strings.Contains(m.data, `"state":"draining"`)
	}
	refused(t, call(t, "GET", l.URL("/api/v1/stream?job=none"), ""), http.StatusNotFound)
}

// Streams end when the server stops, at once: it would wait for them, and they for it.
func TestAPIStreamsEndWithTheServer(t *testing.T) {
	t.Parallel()
	l := start(t, nil)
	all := []*bufio.Scanner{
		stream(t, l.URL("/api/v1/stream")),
		stream(t, l.URL("/api/v1/events"), "Accept", "text/event-stream"),
	}
	if err := l.Stop(); err != nil {
		t.Error(err)
	}
	for _, s := range all {
		for s.Scan() {
		}
	}
}

func TestAPIActions(t *testing.T) {
	t.Parallel()
	l := start(t, minReplicas(1))
	all, _ := form(t, l.Addr, "a", "team/b")
	const reason = `{"reason":"tried by hand"}`
	at := l.URL("/api/v1/jobs/default/replicas/")
	for _, tc := range []struct {
		path, body string
		status     int
		code       string
	}{
		{at + "a/drain", ``, 400, "invalid"},
		{at + "a/drain", `{}`, 400, "invalid"},
		{at + "a/drain", `{"reason":"  "}`, 400, "invalid"},
		{at + "a/drain", `{"reason":"x","job":"y"}`, 400, "invalid"},
		{at + "a/drain", `{"reason":"x"}{}`, 400, "invalid"},
		{at + "a/drain", `{"reason":"` + strings.Repeat("x", api.MaxReasonBytes+1) + `"}`, 400, "invalid"},
		{at + "a/drain", `reason=x`, 400, "invalid"},
		{at + "nobody/drain", reason, 404, "unknown replica"},
		{l.URL("/api/v1/jobs/none/replicas/a/evict"), reason, 404, "unknown job"},
		{l.URL("/api/v1/jobs/a%20b/replicas/a/evict"), reason, 400, "invalid"},
		{at + "a/undo", reason, 409, "conflict"},
		{at + "nobody/undo", reason, 404, "unknown replica"},
		{at + "a/kill", reason, 503, "unreachable"}, // its manager is at a port where nothing listens
		{l.URL("/api/v1/jobs/default/rules"), reason, 400, "invalid"},
		{l.URL("/api/v1/jobs/default/rules"), `{"reason":"x","min_replicas":0}`, 400, "invalid"},
		{l.URL("/api/v1/jobs/default/rules"), `{"reason":"x","min_replicas":-1}`, 400, "invalid"},
		{l.URL("/api/v1/leader/transfer"), reason, 409, "conflict"}, // it is alone
	} {
		if code := refused(t, call(t, "POST", tc.path, tc.body), tc.status); code != tc.code {
			t.Errorf("POST %s %.40s: code %q, want %q", tc.path, tc.body, code, tc.code)
		}
	}
	for path, body := range map[string]string{
		at + "team%2Fb/drain":               reason,
		l.URL("/api/v1/jobs/default/rules"): `{"reason":"fewer","min_replicas":2,"grace_ms":1500,"evict_stuck":true}`,
	} {
		if resp := call(t, "POST", path, body); resp.StatusCode != http.StatusNoContent {
			text, _ := io.ReadAll(resp.Body)
			t.Errorf("POST %s: %d %s", path, resp.StatusCode, text)
		}
	}
	all[1].next("drain notice", func(d *skerrypb.Down) bool { return d.GetDrain().GetReason() == "tried by hand" })
	if resp := call(t, "POST", at+"team%2Fb/undo", reason); resp.StatusCode != http.StatusNoContent {
		t.Errorf("undo of a drain: %d", resp.StatusCode)
	}
	all[1].next("the drain taken back", func(d *skerrypb.Down) bool { return d.GetDrain().GetUndone() })
	if code := refused(t, call(t, "POST", at+"team%2Fb/undo", reason), http.StatusConflict); code != "conflict" {
		t.Errorf("a second undo of a drain: %q", code)
	}
	job := answered[api.Overview](t, call(t, "GET", l.URL("/api/v1/status"), ""), http.StatusOK).Jobs[0]
	if job.MinReplicas != 2 || job.GraceMs != 1500 || !job.EvictStuck {
		t.Errorf("rules %+v", job.Rules)
	}
	if resp := call(t, "POST", at+"a/evict", reason); resp.StatusCode != http.StatusNoContent {
		t.Errorf("evict: %d", resp.StatusCode)
	}
	testkit.Eventually(t, "what was asked for is told", func() bool {
		told := events(t, l, "?job=default")
		for _, e := range told {
			if slices.Contains([]string{"draining", "stays", "evicted", "configured"}, e.Kind) && (e.By != "127.0.0.1" || e.From != "127.0.0.1" || e.Reason == "") {
				t.Errorf("told without who asked and why: %+v", e)
			}
		}
		k := kinds(told)
		return slices.Contains(k, "draining") && slices.Contains(k, "stays") && slices.Contains(k, "evicted") && slices.Contains(k, "configured")
	})
}
