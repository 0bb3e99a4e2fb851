package lighthouse_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/lighthouse/api"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
)

// wantedAt is the first job as a server shows it.
func wantedAt(t testing.TB, l *lighthousetest.Server) api.Job {
	t.Helper()
	o := answered[api.Overview](t, call(t, "GET", l.URL("/api/v1/status?job=default"), ""), http.StatusOK)
	return o.Jobs[0]
}

// How many replicas are wanted is kept with who asked, is told to launchers that wait for it, and
// outlives the leader.
func TestScale(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		old, others := leader(t, inProcess(t, 3))
		form(t, old.Addr, "a", "b")
		if j := wantedAt(t, old); j.WantedReplicas != nil || j.Launchers != 0 {
			t.Errorf("before: %+v, %d launchers", j.WantedReplicas, j.Launchers)
		}
		ask := func(addr string, req *skerrypb.WantedRequest) *skerrypb.WantedResponse {
			t.Helper()
			resp, err := skerrypb.NewLighthouseClient(dial(t, addr)).Wanted(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			return resp
		}
		if resp := ask(old.Addr, &skerrypb.WantedRequest{Job: "default", Nodes: 2}); resp.GetWanted() != nil || resp.GetFinished() {
			t.Errorf("no number was asked for: %v", resp)
		}
		told := make(chan *skerrypb.WantedResponse, 1)
		client := skerrypb.NewLighthouseClient(dial(t, old.Addr))
		go func() {
			resp, err := client.Wanted(t.Context(), &skerrypb.WantedRequest{Job: "default", Node: 1, Nodes: 2, HoldMs: 30_000})
			if err != nil {
				t.Error(err)
			}
			told <- resp
		}()
		resp := call(t, "POST", old.URL("/api/v1/jobs/default/scale"), `{"replicas":12,"reason":"more machines"}`)
		if resp.StatusCode != http.StatusNoContent {
			text, _ := io.ReadAll(resp.Body)
			t.Fatalf("scale: %d %s", resp.StatusCode, text)
		}
		if w := (<-told).GetWanted(); w.GetReplicas() != 12 || w.GetReason() != "more machines" || w.GetFrom() != "127.0.0.1" {
			t.Errorf("a launcher that waited was told %v", w)
		}
		if _, err := client.Scale(t.Context(), &skerrypb.ScaleRequest{Job: "default", Replicas: 6, Reason: "less"}); err != nil {
			t.Fatal(err)
		}
		before := wantedAt(t, old)
		if w := before.WantedReplicas; w == nil || w.Replicas != 6 || w.Reason != "less" || w.By == "" || w.From != "127.0.0.1" || before.Launchers != 2 {
			t.Fatalf("kept: %+v, %d launchers", w, before.Launchers)
		}
		if err := old.Stop(); err != nil {
			t.Fatal(err)
		}
		next, _ := leader(t, others)
		after := wantedAt(t, next)
		if after.WantedReplicas == nil || *after.WantedReplicas != *before.WantedReplicas {
			t.Errorf("the next leader keeps %+v, want %+v", after.WantedReplicas, before.WantedReplicas)
		}
		if w := ask(next.Addr, &skerrypb.WantedRequest{Job: "default", Nodes: 2}).GetWanted(); w.GetReplicas() != 6 || w.GetAtMs() != before.WantedReplicas.AtMs {
			t.Errorf("the next leader tells %v", w)
		}
		takeBack(t, next, before.WantedReplicas.AtMs)
		var texts []string
		for _, e := range events(t, next, "?job=default") {
			if e.Kind == "scaled" {
				texts = append(texts, e.Text)
			}
		}
		if len(texts) != 3 || !strings.HasPrefix(texts[2], "the wanted number of replicas, 6, is taken back by ") || !strings.HasPrefix(texts[0], "12 replicas are wanted by 127.0.0.1") || !strings.HasPrefix(texts[1], "6 replicas are wanted, not 12, by ") || !strings.HasSuffix(texts[1], ": less") {
			t.Errorf("told: %q", texts)
		}
	})
}

// takeBack takes the number back: a launcher that knew it learns so at once.
func takeBack(t testing.TB, l *lighthousetest.Server, seenMs int64) {
	t.Helper()
	if resp := call(t, "POST", l.URL("/api/v1/jobs/default/scale"), `{"replicas":0,"reason":"as before"}`); resp.StatusCode != http.StatusNoContent {
		t.Errorf("the number is taken back: %d", resp.StatusCode)
	}
	if w := wantedAt(t, l).WantedReplicas; w != nil {
		t.Errorf("kept after it was taken back: %+v", w)
	}
	req := &skerrypb.WantedRequest{Job: "default", Nodes: 2, SeenAtMs: seenMs, HoldMs: 30_000}
	if resp, err := skerrypb.NewLighthouseClient(dial(t, l.Addr)).Wanted(t.Context(), req); err != nil || resp.GetWanted() != nil {
		t.Errorf("a launcher is told %v, %v of a number that was taken back", resp, err)
	}
}

// What cannot be had, and a job that is not there or is over, is refused, and nothing is kept of
// it. The number ends with the run.
func TestScaleRefused(t *testing.T) {
	t.Parallel()
	l := start(t, minReplicas(2))
	members, _ := form(t, l.Addr, "a", "b")
	path := l.URL("/api/v1/jobs/default/scale")
	for body, code := range map[string]string{
		`{"replicas":1,"reason":"r"}`: "invalid", `{"replicas":-1,"reason":"r"}`: "invalid", `{"replicas":99999,"reason":"r"}`: "invalid", `{"replicas":3}`: "invalid",
		`{"reason":"r"}`: "invalid",
	} {
		if got := refused(t, call(t, "POST", path, body), http.StatusBadRequest); got != code {
			t.Errorf("%s: %q, want %q", body, got, code)
		}
	}
	if got := refused(t, call(t, "POST", l.URL("/api/v1/jobs/other/scale"), `{"replicas":3,"reason":"r"}`), http.StatusNotFound); got != "unknown job" {
		t.Errorf("of a job that is not there: %q", got)
	}
	if w := wantedAt(t, l).WantedReplicas; w != nil {
		t.Errorf("kept of what was refused: %+v", w)
	}
	if resp := call(t, "POST", path, `{"replicas":3,"reason":"r"}`); resp.StatusCode != http.StatusNoContent {
		t.Fatalf("scale: %d", resp.StatusCode)
	}
	for _, r := range members {
		r.leave()
	}
	testkit.Eventually(t, "the number ends with the run", func() bool {
		j := wantedAt(t, l)
		return j.State == "finished" && j.WantedReplicas == nil
	})
	if got := refused(t, call(t, "POST", path, `{"replicas":3,"reason":"r"}`), http.StatusConflict); got != "conflict" {
		t.Errorf("of a job that has finished: %q", got)
	}
	resp, err := skerrypb.NewLighthouseClient(dial(t, l.Addr)).Wanted(t.Context(), &skerrypb.WantedRequest{Job: "default", Nodes: 1})
	if err != nil || !resp.GetFinished() {
		t.Errorf("a launcher is told %v, %v; want that the job has finished", resp, err)
	}
}
