package metrics

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// served is a server as the metrics see it.
type served struct {
	all   []quorum.Status
	leads bool
	known map[string]bool
	raft  Raft
	open  bool
}

func (s *served) metrics() *Metrics {
	return New(Source{
		Version: "v1", LogLeftOut: func() uint64 { return 3 }, CertificateUntil: func() float64 { return 0 },
		Sessions: func() int64 { return 2 },
		Leads:    func() bool { return s.leads },
		Jobs:     func(context.Context) []quorum.Status { return s.all },
		Known:    func(job string) bool { return s.known[job] },
		Raft:     func() (Raft, bool) { return s.raft, s.open },
	})
}

// scraped is what a scrape says.
func scraped(t *testing.T, m *Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("scrape: %d\n%s", w.Code, w.Body)
	}
	return w.Body.String()
}

func has(t *testing.T, text string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("the scrape does not say %s", line)
		}
	}
}

func lacks(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if strings.Contains(text, part) {
			t.Errorf("the scrape says %s", part)
		}
	}
}

func quorumOf(id int64, ids ...quorum.ReplicaID) quorum.Quorum {
	q := quorum.Quorum{ID: id}
	for _, id := range ids {
		q.Members = append(q.Members, quorum.Member{ReplicaID: id})
	}
	return q
}

func TestJobs(t *testing.T) {
	t.Parallel()
	q := quorumOf(7, "a", "b")
	s := &served{leads: true, open: true, raft: Raft{LastIndex: 12, CommitIndex: 11, AppliedIndex: 10, Term: 2, Leads: true}}
	s.all = []quorum.Status{{Job: "j", Last: &q, Stands: true, Config: quorum.Config{MinReplicas: 2}, Replicas: []quorum.ReplicaStatus{
		{ReplicaID: "a", State: quorum.StateLive, Position: quorum.Position{Step: 4}},
		{ReplicaID: "b", State: quorum.StateLive, Beat: quorum.Beat{Position: quorum.Position{Step: 5}}},
		{ReplicaID: "c", State: quorum.StateProbation},
	}}}
	m := s.metrics()
	m.Began("j", nil)
	m.Killed("j")
	now := time.Now()
	m.Happened("j", quorum.Event{Kind: quorum.EventLost, ReplicaID: "a", Text: "stream broke, accused by b"}, now)
	m.Happened("j", quorum.Event{Kind: quorum.EventFell, Text: "a was lost"}, now)
	m.Happened("j", quorum.Event{Kind: quorum.EventDraining, ReplicaID: "b"}, now)
	m.Happened("j", quorum.Event{Kind: quorum.EventEvicted, ReplicaID: "b"}, now)
	for _, o := range []quorum.Outcome{quorum.Forward, quorum.Discard, quorum.Discard} {
		settled := quorum.Settlement{Step: 1, QuorumID: 7, Outcome: o}
		m.Happened("j", quorum.Event{Kind: quorum.EventSettled, Text: settled.String()}, now)
	}
	text := scraped(t, m)
	has(t, text, `skerry_lighthouse_leader 1`, `skerry_lighthouse_sessions 2`, `skerry_lighthouse_log_left_out_total 3`,
		`skerry_lighthouse_raft_last_index 12`, `skerry_lighthouse_raft_commit_index 11`, `skerry_lighthouse_raft_applied_index 10`,
		`skerry_lighthouse_raft_term 2`, `skerry_lighthouse_raft_leader_contact_seconds 0`,
		`skerry_lighthouse_quorum_id{job="j"} 7`, `skerry_lighthouse_members{job="j"} 2`, `skerry_lighthouse_min_replicas{job="j"} 2`,
		`skerry_lighthouse_standing{job="j"} 1`, `skerry_lighthouse_step{job="j"} 5`,
		`skerry_lighthouse_replicas{job="j",state="live"} 2`, `skerry_lighthouse_replicas{job="j",state="on_probation"} 1`,
		`skerry_lighthouse_replicas{job="j",state="lost"} 0`,
		`skerry_lighthouse_lost_total{job="j",reason="stream_broken"} 1`, `skerry_lighthouse_lost_total{job="j",reason="silent"} 0`,
		`skerry_lighthouse_quorums_fallen_total{job="j"} 1`, `skerry_lighthouse_drains_total{job="j"} 1`,
		`skerry_lighthouse_evictions_total{job="j"} 1`, `skerry_lighthouse_kills_total{job="j"} 1`,
		`skerry_lighthouse_steps_settled_total{job="j",outcome="committed"} 1`,
		`skerry_lighthouse_steps_settled_total{job="j",outcome="discarded"} 2`)
	if !strings.Contains(text, `skerry_lighthouse_build_info{goversion="go`) || !strings.Contains(text, `version="v1"} 1`) {
		t.Error("no build_info")
	}
}

// Every series of a job goes with it, on the leader at once, on another server when the
// ledger no longer has the job. Those of another job stay.
func TestForgottenJobsSeriesGo(t *testing.T) {
	t.Parallel()
	s := &served{leads: true, known: map[string]bool{"stays": true, "goes": true}}
	m := s.metrics()
	for _, job := range []string{"now", "stays", "goes"} {
		m.Formed(job, quorumOf(1, "a"), time.Now())
		m.Happened(job, quorum.Event{Kind: quorum.EventLost, Text: "silent for 1s"}, time.Now())
	}
	m.Forget("now")
	text := scraped(t, m)
	lacks(t, text, `job="now"`)
	has(t, text, `skerry_lighthouse_lost_total{job="goes",reason="silent"} 1`)
	s.leads = false
	delete(s.known, "goes")
	text = scraped(t, m)
	lacks(t, text, `job="goes"`)
	has(t, text, `skerry_lighthouse_leader 0`, `skerry_lighthouse_quorums_formed_total{job="stays"} 1`)
	lacks(t, text, "skerry_lighthouse_raft_last_index ") // no log yet
}

// A follower's log can be compared with the others', and says when it heard the leader.
func TestFollower(t *testing.T) {
	t.Parallel()
	s := &served{open: true, raft: Raft{LastIndex: 12, AppliedIndex: 9, Contact: time.Now().Add(-time.Minute)}}
	text := scraped(t, s.metrics())
	has(t, text, `skerry_lighthouse_raft_last_index 12`, `skerry_lighthouse_raft_applied_index 9`)
	_, after, found := strings.Cut(text, "\nskerry_lighthouse_raft_leader_contact_seconds ")
	var seconds float64
	if _, err := fmt.Sscan(after, &seconds); !found || err != nil || seconds < 60 {
		t.Errorf("heard the leader %v s ago (%t, %v), want a minute at least", seconds, found, err)
	}
	s.raft.Contact = time.Time{}
	lacks(t, scraped(t, s.metrics()), "skerry_lighthouse_raft_leader_contact_seconds ")
}

// The causes of a loss are found in what the rules write.
func TestLostReason(t *testing.T) {
	t.Parallel()
	config := quorum.DefaultConfig()
	for _, c := range []struct {
		name, want string
		f          func(m *quorum.Machine, now time.Time)
	}{
		{"beats missed", lostBeatsMissed, func(m *quorum.Machine, now time.Time) { m.Advance(now.Add(time.Hour)) }},
		{"stream broke", lostStreamBroken, func(m *quorum.Machine, now time.Time) {
			m.Broken(now, "a", "", false)
			m.Advance(now.Add(time.Hour))
		}},
	} {
		now := time.Now()
		m := quorum.New(now, config, quorum.NewLedger("c", "j", 1))
		if err := m.Open(now, quorum.Hello{ReplicaID: "a", Client: quorum.KindSkerry}); err != nil {
			t.Fatal(err)
		}
		join := quorum.Join{Client: quorum.KindSkerry, Kind: quorum.JoinFall, Number: 1, Member: quorum.Member{ReplicaID: "a", GroupWorldSize: 1, Address: "http://h:1", StoreAddress: "h:2"}}
		if err := m.Join(now, join); err != nil {
			t.Fatal(err)
		}
		c.f(m, now)
		got := ""
		for _, e := range m.Events() {
			if e.Kind == quorum.EventLost {
				got = lostReason(e.Text)
			}
		}
		if got != c.want {
			t.Errorf("%s: reason %q, want %q", c.name, got, c.want)
		}
	}
	for text, want := range map[string]string{
		"accused by b, grace is over": lostAccused, "silent for 5s": lostSilent, "superseded by a:2": lostSuperseded, "": lostOther,
		"stream broke, accused by b, c": lostStreamBroken,
	} {
		if got := lostReason(text); got != want {
			t.Errorf("%q: reason %s, want %s", text, got, want)
		}
	}
}

func TestReform(t *testing.T) {
	t.Parallel()
	at := func(ms int) time.Time { return time.UnixMilli(0).Add(time.Duration(ms) * time.Millisecond) }
	start := quorumOf(1, "a", "b")
	for _, c := range []struct {
		name string
		hear map[int]quorum.EventKind // by millisecond
		next quorum.Quorum            // formed at 100 ms
		want time.Duration            // 0: it is no re-forming
	}{
		{"from the suspicion", map[int]quorum.EventKind{10: quorum.EventSuspect, 30: quorum.EventLost, 31: quorum.EventFell}, quorumOf(2, "b"), 90 * time.Millisecond},
		{"from the fall", map[int]quorum.EventKind{40: quorum.EventFell}, quorumOf(2, "a", "b", "c"), 60 * time.Millisecond},
		{"a suspicion that was cleared is none", map[int]quorum.EventKind{10: quorum.EventSuspect, 20: quorum.EventCleared, 50: quorum.EventFell}, quorumOf(2, "b"), 50 * time.Millisecond},
		{"after the fall a word for one changes nothing", map[int]quorum.EventKind{10: quorum.EventFell, 20: quorum.EventCleared}, quorumOf(2, "b"), 90 * time.Millisecond},
		{"growth", nil, quorumOf(2, "a", "b", "c"), 0},
		{"a suspicion alone", map[int]quorum.EventKind{10: quorum.EventSuspect}, quorumOf(2, "a", "b", "c"), 0},
		{"another run", map[int]quorum.EventKind{10: quorum.EventFell}, quorumOf(2, "x", "y"), 0},
	} {
		var r reform
		r.begin(start)
		for ms := range 100 {
			if kind, ok := c.hear[ms]; ok {
				r.hear(kind, at(ms))
			}
		}
		took, reformed := r.form(c.next, at(100))
		if !reformed {
			took = 0
		}
		if took != c.want {
			t.Errorf("%s: %v, want %v", c.name, took, c.want)
		}
		if took, reformed := r.form(c.next, at(200)); reformed {
			t.Errorf("%s: the quorum after it re-formed, too, in %v", c.name, took)
		}
	}
}
