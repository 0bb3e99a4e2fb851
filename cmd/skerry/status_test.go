package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/lighthouse/api"
	"github.com/skerry-ft/skerry/pg/trace"
)

func serveStatus(t *testing.T, status int, body string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/status.json":
		case "/api/v1/status", "/api/v1/events": // a build of before the API has none
			http.NotFound(w, r)
			return
		default:
			t.Errorf("asked for %s", r.URL.Path)
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body)) // a test that fails sees it
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

func TestStatusTable(t *testing.T) {
	t.Parallel()
	body, err := json.Marshal(api.Status{
		Addr: "127.0.0.1:29510", Leads: true, Term: 2, UptimeMs: 61_500, Sessions: 2, Cluster: "c1",
		Jobs: []api.JobStatus{
			{
				Job: "default", QuorumID: 17, Round: 1, Stands: true, Members: 3, Participants: 1, MaxStep: 40,
				Reason: "the quorum stands", Wanted: "b joined",
				Replicas: []api.ReplicaStatus{
					{ReplicaID: "a:1", State: "live", Member: true, Participant: true, Step: 40, Phase: "training", SilenceMs: 80},
					{ReplicaID: "c", State: "live", Member: true, Participant: true, Heals: true, Step: 40, StepQuorum: 17, Phase: "training"},
					{ReplicaID: "b:\x1b[2J", State: "suspect", Member: true, Heals: true, Step: 3, Phase: "healing", SilenceMs: 600, Why: "stream broke"},
				},
			},
			{Job: "other", Reason: "nobody has joined"},
			{Job: "third", QuorumID: 3, FellBy: "x left", Reason: "waiting"},
			{Job: "quiet", QuorumID: 4, Round: 2, Stands: true, Reason: "the quorum stands"},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	addr := serveStatus(t, http.StatusOK, string(body))
	status, stdout, stderr := skerry("status", "--lighthouse", addr)
	const want = `lighthouse 127.0.0.1:29510 leads in term 2, up 1m1.5s, 2 sessions, cluster c1

job default: step 40, quorum 17 round 1 stands, 3 members, 1 participant
next: the quorum stands
change wanted: b joined
REPLICA    STATE    PART         STEP  PHASE     SILENT  WHY
a:1        live     participant  40    training  80ms    
c          live     participant  40    training  0s      
b:\x1b[2J  suspect  heals        3     healing   600ms   stream broke

job other: step 0, no quorum yet
next: nobody has joined
REPLICA  STATE  PART  STEP  PHASE  SILENT  WHY

job third: step 0, quorum 3 fell: x left
next: waiting
REPLICA  STATE  PART  STEP  PHASE  SILENT  WHY

job quiet: step 0, quorum 4 round 2 stands, 0 members, 0 participants
REPLICA  STATE  PART  STEP  PHASE  SILENT  WHY
`
	if status != 0 || stdout != want {
		t.Errorf("status %d %q\n%s\nwant\n%s", status, stderr, stdout, want)
	}
	if status, stdout, _ := skerry("status", "-o", "json", "--lighthouse", "http://"+addr); status != 0 || strings.TrimSpace(stdout) != string(body) {
		t.Errorf("--json: %d %q, want the body as it is", status, stdout)
	}
}

// A follower that was asked has the leader answer; nobody takes it for the leader.
func TestStatusSaysWhoWasAsked(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"addr":"a:1","leads":true,"leader":"a:1","term":2}`:  "lighthouse a:1 leads in term 2,",
		`{"addr":"a:1","leads":false,"leader":"a:1","term":2}`: "lighthouse a:1 leads in term 2 (the server that was asked follows),",
		`{"addr":"b:1"}`: "lighthouse b:1 knows no leader,",
	} {
		status, stdout, stderr := skerry("status", "--lighthouse", serveStatus(t, http.StatusOK, body))
		if !strings.HasPrefix(stdout, want) {
			t.Errorf("%s: %q %q, want %q", body, stdout, stderr, want)
		}
		if led := !strings.Contains(want, "no leader"); led != (status == 0) || !led && (status != 3 || !strings.Contains(stderr, "no lighthouse server leads") || strings.Contains(stdout, "no jobs")) {
			t.Errorf("%s: status %d, %q, %q", body, status, stdout, stderr)
		}
	}
}

// A server that knows no leader does not hide one that does.
func TestStatusAsksWhoKnows(t *testing.T) {
	t.Parallel()
	cut, leads := serveStatus(t, http.StatusOK, `{"addr":"a:1"}`), serveStatus(t, http.StatusOK, `{"addr":"b:1","leads":true,"leader":"b:1","term":2}`)
	if status, stdout, stderr := skerry("status", "--lighthouse", cut+","+leads); status != 0 || !strings.HasPrefix(stdout, "lighthouse b:1 leads") {
		t.Errorf("status %d, %q, %q", status, stdout, stderr)
	}
	if status, stdout, stderr := skerry("status", "--lighthouse", cut+",127.0.0.1:1"); status != 3 || !strings.HasPrefix(stdout, "lighthouse a:1 knows no leader") {
		t.Errorf("status %d, %q, %q", status, stdout, stderr)
	}
}

func TestStatusErrors(t *testing.T) {
	t.Parallel()
	cases := []struct{ addr, want string }{
		{"127.0.0.1:1", "skerry: lighthouse 127.0.0.1:1 cannot be reached: connection refused; start one with skerry lighthouse, or name another by --lighthouse\n"},
		{"", "skerry: --lighthouse = \"\", want host:port or a URL, as 127.0.0.1:29510\n"},
		{"ftp://x", "skerry: --lighthouse = \"ftp://x\", want host:port or a URL, as 127.0.0.1:29510\n"},
	}
	for _, c := range cases {
		if status, stdout, stderr := skerry("status", "--lighthouse", c.addr); status == 0 || stdout != "" || stderr != c.want {
			t.Errorf("status of %q: %d %q %q, want %q", c.addr, status, stdout, stderr, c.want)
		}
	}
	addr := serveStatus(t, http.StatusBadRequest, "this port speaks TLS: use https://\n<html>")
	if status, _, stderr := skerry("status", "--lighthouse", addr); status == 0 || !strings.Contains(stderr, "this port speaks TLS: give --tls-ca") {
		t.Errorf("status %d %q", status, stderr)
	}
	addr = serveStatus(t, http.StatusTeapot, "")
	if status, _, stderr := skerry("status", "--lighthouse", addr); status == 0 || !strings.Contains(stderr, "answers 418") {
		t.Errorf("status %d %q", status, stderr)
	}
	addr = serveStatus(t, http.StatusOK, "<html>")
	if status, _, stderr := skerry("status", "--lighthouse", addr); status == 0 || !strings.Contains(stderr, "did not answer with its status") {
		t.Errorf("status %d %q", status, stderr)
	}
}

// Every command shows harmlessly what a hostile lighthouse answers.
func TestHostileTextIsShownHarmlessly(t *testing.T) {
	t.Parallel()
	const h = testkit.HostileText
	body, err := json.Marshal(api.Status{
		Addr: h, Cluster: h,
		Jobs: []api.JobStatus{{
			Job: h, QuorumID: 17, FellBy: h, Formed: h, Reason: h, Wanted: h,
			History:  []api.HistoryStatus{{QuorumID: 1, Reason: h, Settled: h, Accusations: []string{h}}},
			Replicas: []api.ReplicaStatus{{ReplicaID: h, State: h, Phase: h, Why: h, Member: true}},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	addr := serveStatus(t, http.StatusOK, string(body))
	for _, args := range [][]string{
		{"status"}, {"status", "-o", "json"}, {"why", "-o", "json"}, {"why"}, {"why", h}, {"why", "--job", h}, {"why", h + "x"}, {"why", "--job", h + "x"},
	} {
		_, stdout, stderr := skerry(append(args, "--lighthouse", addr)...)
		if !strings.Contains(stdout+stderr, "all is well") {
			t.Errorf("%q printed %q %q, without what the lighthouse says", args, stdout, stderr)
		}
		testkit.Harmless(t, stdout)
		testkit.Harmless(t, stderr)
	}
	// A status line, and a dump, that are hostile themselves.
	file := filepath.Join(t.TempDir(), "dump.json")
	dump := trace.Dump{Version: trace.Version, Group: h, Backend: h, Cause: h, Cluster: h, ReplicaIDs: []string{h, h}}
	for n := range 2 {
		at := time.Now()
		dump.Entries = append(dump.Entries, trace.Entry{Number: uint64(n + 1), Place: uint64(n + 1), Cluster: h, Kind: h, Error: h, State: h, Scheduled: &at})
	}
	var text bytes.Buffer
	if err := dump.WriteJSON(&text); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"trace", file}, {"trace", "-o", "json", file}, {"trace", file, filepath.Join(filepath.Dir(file), h)}} {
		_, stdout, stderr := skerry(args...)
		if !strings.Contains(stdout, "all is well") {
			t.Errorf("%q printed %q %q, without what the dump says", args, stdout, stderr)
		}
		testkit.Harmless(t, stdout)
		testkit.Harmless(t, strings.ReplaceAll(stderr, "\nskerry: all", "")) // the name of a file on the command line
	}
}

// TestStatusOfTheAPI: how a job is, its rates and its replicas' times are told as the
// lighthouse tells them, with names for ids, and ids whole where that is asked for.
func TestStatusOfTheAPI(t *testing.T) {
	t.Parallel()
	const id, other = "replica-0:550e8400-e29b-41d4-a716-446655440000", "replica-1:650e8400-e29b-41d4-a716-446655440000"
	body, err := json.Marshal(api.Overview{
		Head: api.Head{Addr: "a:1", Leads: true, Leader: "a:1", Term: 2},
		Jobs: []api.Job{{
			JobFacts: api.JobFacts{Job: "digits", State: "reforming", QuorumID: 1795, Ordinal: 59, FellBy: id + " died", Reason: "waiting for " + other, StepRate: 19.61, Goodput: 0.9754, MaxStep: 661, StepsTotal: 2000, EtaMs: 68_000,
				WantedReplicas: &api.Wanted{Replicas: 4, AtMs: 1, By: "token", Reason: "more\x07machines"}, Launchers: 2},
			Replicas: []api.Replica{{ReplicaID: id, State: "lost", Why: "accused by " + other, StepMs: 31.8, WaitMs: 0.97, Step: 661}},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/status" {
			t.Errorf("asked for %s", r.URL.Path)
		}
		_, _ = w.Write(body) // a test that fails sees it
	}))
	t.Cleanup(s.Close)
	for args, want := range map[string][]string{
		"": {"job digits: reforming, step 661 of 2000, 19.6 steps/s, goodput 97.5 %, 1 min to go, quorum #59 fell: replica-0 died\n", "next: waiting for replica-1\n", "replicas wanted: 4, by 2 launchers: more\\amachines\n",
			"replica-0:550e8400  lost", "32 ms     1.0 ms", "accused by replica-1\n"},
		"--wide":  {"quorum 1795 fell: " + id + " died\n", id + "  lost", "accused by " + other + "\n"},
		"-o json": {string(body)},
	} {
		status, stdout, stderr := skerry(append([]string{"status", "--lighthouse", s.URL}, strings.Fields(args)...)...)
		for _, text := range want {
			if status != 0 || !strings.Contains(stdout, text) {
				t.Errorf("%s: status %d %q, no %q in\n%s", args, status, stderr, text, stdout)
			}
		}
	}
}
