package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/skerry-ft/skerry/cmd/skerry/internal/changes"
	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/lighthouse/api"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
)

// told are the events of a job in which replica-0 dies, and comes back.
var told = []api.Event{
	{Job: "digits", Seq: 1, AtMs: 1_000, Kind: "formed", QuorumID: 7, Members: 4, Text: "4 members"},
	{Job: "digits", Seq: 2, AtMs: 2_000, Kind: "lost", Replica: "replica-0:1", Text: "replica-0 died: link cut, seen by replica-3 and replica-4"},
	{Job: "digits", Seq: 3, AtMs: 2_011, Kind: "formed", QuorumID: 8, Members: 3, Before: 4, Gone: []api.Cause{{Kind: "link", Replica: "replica-0:1"}},
		Cost: &api.Cost{KnownMs: 4.1, ReformedMs: 11.3}, Ordinal: 2, What: "replica-0 died: link cut · replica-9 left · step 661 done anew",
		Text: "replica-0 died: link cut · replica-9 left · known after 4.1 ms · step 661 done anew"},
	{Job: "digits", Seq: 4, AtMs: 2_153, Kind: "resumed", QuorumID: 8,
		Cost: &api.Cost{ResumedMs: 153.2, LostMs: 133, Step: 661, Outcome: "discard"}, Text: "training goes on after 153 ms"},
	{Job: "digits", Seq: 5, AtMs: 9_000, Kind: "draining", Replica: "replica-2:1", By: "alice", Text: "replica-2 was told to drain by alice"},
}

// serveEvents answers as the API does: with those after since, and, where they are
// followed, one by one, broken off after the third of a stream.
func serveEvents(t *testing.T) (addr string, streams func() []string) {
	t.Helper()
	var mu sync.Mutex
	var since []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if r.URL.Path != "/api/v1/events" {
			http.NotFound(w, r)
			return
		}
		if j := q.Get("job"); j != "" && j != "digits" {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprintf(w, `{"error":{"code":"unknown job","message":"no job is called %s"}}`, j)
			return
		}
		if q.Get("follow") == "" {
			_ = json.NewEncoder(w).Encode(told[:2]) // a test that fails sees it
			return
		}
		mu.Lock()
		since = append(since, q.Get("since"))
		n := len(since)
		mu.Unlock()
		if r.Header.Get("Accept") != "application/x-ndjson" {
			t.Errorf("accepts %q", r.Header.Get("Accept"))
		}
		for _, e := range told[:min(2+2*n, len(told))] { // some are told again
			_ = json.NewEncoder(w).Encode(e) // the same
		}
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://"), func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(since)
	}
}

// TestEventsFollow: what there is, and what comes, is told once, over a stream that
// breaks.
func TestEventsFollow(t *testing.T) {
	t.Parallel()
	addr, streams := serveEvents(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out testkit.Log
	ended := make(chan error, 1)
	cmd := newEventsCommand()
	cmd.SilenceUsage, cmd.SilenceErrors = true, true // as under the root
	cmd.SetArgs([]string{"--follow", "--job", "digits", "--lighthouse", addr})
	cmd.SetOut(&out)
	cmd.SetErr(&bytes.Buffer{})
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	testkit.Eventually(t, "all are told", func() bool { return strings.Contains(out.String(), "#5 ") })
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != len(told) {
		t.Fatalf("told %q, want %d lines", lines, len(told))
	}
	for i, e := range told {
		if !strings.HasSuffix(lines[i], fmt.Sprintf("#%d %s", e.Seq, e.Text)) {
			t.Errorf("line %d: %q, want event %d, %q", i, lines[i], e.Seq, e.Text)
		}
	}
	if since := streams(); len(since) < 2 || since[0] != "t0" || since[1] != "t0" {
		t.Errorf("streams were asked for from %q, want those of a minute before", since)
	}
}

// TestEventsOf: one replica's events, as JSON, a line each; another job is not there.
func TestEventsOf(t *testing.T) {
	t.Parallel()
	addr, _ := serveEvents(t)
	status, stdout, stderr := skerry("events", "--replica", "replica-0", "-o", "json", "--lighthouse", addr)
	var e api.Event
	if err := json.Unmarshal([]byte(stdout), &e); status != 0 || err != nil || e.Seq != 2 || strings.Count(stdout, "\n") != 1 {
		t.Errorf("status %d, %v, %s%s; want the event 2", status, err, stdout, stderr)
	}
	if status, _, stderr := skerry("events", "--job", "none", "--lighthouse", addr); status != 4 || stderr != "skerry: no job is called none\n" {
		t.Errorf("another job: status %d, %q", status, stderr)
	}
	before := httptest.NewServer(http.NotFoundHandler()) // a server of a build that has no events
	t.Cleanup(before.Close)
	if status, _, stderr := skerry("events", "--lighthouse", before.URL); status != 1 || !strings.Contains(stderr, "has no /api/v1/events: its build is of before") {
		t.Errorf("an old server: status %d, %q", status, stderr)
	}
}

// TestHistory: each change is told with what its first step told of its cost.
func TestHistory(t *testing.T) {
	t.Parallel()
	all := changes.Of(told)
	var out bytes.Buffer
	if err := changes.Write(&out, all, false, false); err != nil {
		t.Fatal(err)
	}
	got := out.String()
	for _, want := range []string{
		"QUORUM  MEMBERS  KNOWN   FORMED  RESUMED  LOST    WHAT",
		"7       4        -       -       -        -       4 members\n", // of an older lighthouse
		"#2      4→3      4.1 ms  11 ms   153 ms   133 ms  replica-0 died: link cut · replica-9 left · step 661 done anew\n",
		"2 changes · training again after 153 ms (median), 153 ms at most · 133 ms lost · 1 step done anew",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if len(all) != 2 || told[2].Cost.ResumedMs != 0 {
		t.Errorf("%d changes, and the event itself has %+v", len(all), told[2].Cost)
	}
}

// TestLatestChanges: of events that come a part at a time each job's last change is known,
// with the cost that a later event tells.
func TestLatestChanges(t *testing.T) {
	t.Parallel()
	var l changes.Latest
	other := api.Event{Job: "other", Seq: 1, AtMs: 1_500, Kind: "formed", QuorumID: 3}
	if got := l.Add([]api.Event{told[0], other, told[1], told[2]}); len(got) != 2 || got[0].Job != "other" || got[1].QuorumID != 8 {
		t.Errorf("the last changes are %+v", got)
	}
	if got := l.Add(nil); len(got) != 2 {
		t.Errorf("without news %d changes are left, want 2", len(got))
	}
	got := l.Add(told[3:])
	if len(got) != 2 || got[1].Cost == nil || got[1].Cost.ResumedMs != 153.2 || got[1].Cost.KnownMs != 4.1 {
		t.Errorf("the last changes are %+v, want the cost of both events", got)
	}
}

// TestWatchReadsNews: skerry status --watch asks for the events that are new, and not for all
// again.
func TestWatchReadsNews(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var mu sync.Mutex
	var since []string
	var seq int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.URL.Path == "/api/v1/status" {
			seq++ // something was told each time
			fmt.Fprintf(w, `{"leads":true,"jobs":[{"job":"digits","last_seq":%d}]}`, seq)
			return
		}
		if since = append(since, r.URL.Query().Get("since")); len(since) == 3 {
			cancel()
		}
		_ = json.NewEncoder(w).Encode([]api.Event{{Job: "digits", Seq: seq, AtMs: 100_000 + seq, Kind: "formed"}})
	}))
	t.Cleanup(s.Close)
	cmd := newStatusCommand()
	cmd.SetArgs([]string{"--watch", "--every", "100ms", "--lighthouse", s.URL})
	cmd.SetOut(&testkit.Log{})
	if err := cmd.ExecuteContext(ctx); err != nil {
		t.Errorf("ended with %v", err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(since) < 3 || since[0] != "" || !strings.HasPrefix(since[1], "t40") || !strings.HasPrefix(since[2], "t40") {
		t.Errorf("asked for the events since %q, want all, and then those of the last minute", since)
	}
}

// TestWhyTellsChanges: of a job why tells how its quorums changed, newest first, with
// culprit, cause and cost, and no more of a replica whose place another has taken.
func TestWhyTellsChanges(t *testing.T) {
	t.Parallel()
	gone := api.ReplicaStatus{ReplicaID: "replica-0:1", State: "lost", Why: "stream broke"}
	alone := api.ReplicaStatus{ReplicaID: "replica-1:1", State: "lost", Why: "beats missed"}
	page := api.Status{Leads: true, Jobs: []api.JobStatus{{
		Job: "digits", QuorumID: 8, Stands: true, History: []api.HistoryStatus{{Reason: "all joined"}},
		Replicas: []api.ReplicaStatus{gone, alone, {ReplicaID: "replica-0:2", State: "live"}},
	}}}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/events" {
			_ = json.NewEncoder(w).Encode(told) // a test that fails sees it
			return
		}
		_ = json.NewEncoder(w).Encode(page) // the same
	}))
	t.Cleanup(s.Close)
	status, stdout, stderr := skerry("why", "--lighthouse", s.URL)
	died, first := strings.Index(stdout, "replica-0 died: link cut"), strings.Index(stdout, "4 members")
	if status != 0 || died < 0 || first < died || strings.Contains(stdout, "all joined") || strings.Contains(stdout, "replica-0:1") ||
		!strings.Contains(stdout, "replica replica-1:1 of job digits is lost: beats missed") {
		t.Errorf("status %d, %s%s", status, stdout, stderr)
	}
}

// TestEventsOverALeader: a stream of events goes on over the death of the server that
// leads, with what the next one tells, though it may give a number anew that was not saved.
func TestEventsOverALeader(t *testing.T) {
	t.Parallel()
	c := lighthousetest.StartCluster(t, 3, lighthousetest.Options{})
	list := strings.Join(c.Addresses(), ",")
	leader := c.Leader()
	present(t, c.Servers[leader].Addr, "a:00000000-0000-0000-0000-000000000001")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out testkit.Log
	ended := make(chan error, 1)
	cmd := newEventsCommand()
	cmd.SilenceUsage, cmd.SilenceErrors = true, true // as under the root
	cmd.SetArgs([]string{"--follow", "--lighthouse", list})
	cmd.SetOut(&out)
	cmd.SetErr(&testkit.Log{})
	asks := func(what string, args ...string) {
		t.Helper()
		testkit.EventuallyNil(t, what, func() error {
			if status, _, stderr := skerry(append(args, "--lighthouse", list)...); status != 0 {
				return errors.New(stderr)
			}
			return nil
		})
	}
	asks("the replica is told to drain", "drain", "a", "--job", "digits")
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	testkit.Eventually(t, "the drain is told", func() bool { return strings.Contains(out.String(), "told to drain") })
	c.Stop(leader)
	asks("the job has rules of its own", "job", "config", "digits", "--min-replicas", "2")
	testkit.Eventually(t, "the next leader's events are told", func() bool { return strings.Contains(out.String(), "rules were changed") })
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
	if n := strings.Count(out.String(), "told to drain"); n != 1 {
		t.Errorf("the drain was told %d times:\n%s", n, &out)
	}
}
