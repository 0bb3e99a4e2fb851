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
	s.all = []quorum.Status{{Job: "j", Last: &q, Stands: true, State: quorum.JobTraining, Config: quorum.Config{MinReplicas: 2}, Replicas: []quorum.ReplicaStatus{
		{ReplicaID: "a", State: quorum.StateLive, Position: quorum.Position{Step: 4}},
		{ReplicaID: "b", State: quorum.StateLive, Beat: quorum.Beat{Position: quorum.Position{Step: 5}}},
		{ReplicaID: "c", State: quorum.StateProbation},
	}}}
	m := s.metrics()
	m.Began("j", true)
	m.Killed("j")
	m.Happened("j", quorum.Event{Kind: quorum.EventLost, ReplicaID: "a", Cause: quorum.Cause{Kind: quorum.CauseStream}})
	m.Happened("j", quorum.Event{Kind: quorum.EventFell, Text: "a was lost"})
	m.Happened("j", quorum.Event{Kind: quorum.EventDraining, ReplicaID: "b"})
	m.Happened("j", quorum.Event{Kind: quorum.EventEvicted, ReplicaID: "b"})
	for _, o := range []quorum.Outcome{quorum.Forward, quorum.Discard, quorum.Discard} {
		settled := quorum.Settlement{Step: 1, QuorumID: 7, Outcome: o}
		m.Happened("j", quorum.Event{Kind: quorum.EventSettled, Text: settled.String()})
	}
	text := scraped(t, m)
	has(t, text, `skerry_lighthouse_leader 1`, `skerry_lighthouse_sessions 2`, `skerry_lighthouse_log_left_out_total 3`,
		`skerry_lighthouse_raft_last_index 12`, `skerry_lighthouse_raft_commit_index 11`, `skerry_lighthouse_raft_applied_index 10`,
		`skerry_lighthouse_raft_term 2`, `skerry_lighthouse_raft_leader_contact_seconds 0`,
		`skerry_lighthouse_quorum_id{job="j"} 7`, `skerry_lighthouse_members{job="j"} 2`, `skerry_lighthouse_min_replicas{job="j"} 2`,
		`skerry_lighthouse_standing{job="j"} 1`, `skerry_lighthouse_job_state{job="j",state="training"} 1`,
		`skerry_lighthouse_job_state{job="j",state="finished"} 0`, `skerry_lighthouse_step{job="j"} 5`,
		`skerry_lighthouse_replicas{job="j",state="live"} 2`, `skerry_lighthouse_replicas{job="j",state="on_probation"} 1`,
		`skerry_lighthouse_replicas{job="j",state="lost"} 0`,
		`skerry_lighthouse_lost_total{job="j",reason="stream"} 1`, `skerry_lighthouse_lost_total{job="j",reason="silent"} 0`,
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
		m.Happened(job, quorum.Event{Kind: quorum.EventFormed})
		m.Happened(job, quorum.Event{Kind: quorum.EventLost, Cause: quorum.Cause{Kind: quorum.CauseSilent}})
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

// The causes that the rules give a loss are all there from the beginning.
func TestLostReasons(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		want string
		f    func(m *quorum.Machine, now time.Time)
	}{
		{quorum.CauseSilent.String(), func(m *quorum.Machine, now time.Time) { m.Advance(now.Add(time.Hour)) }},
		{quorum.CauseStream.String(), func(m *quorum.Machine, now time.Time) {
			m.Broken(now, "a", "", false)
			m.Advance(now.Add(time.Hour))
		}},
	} {
		now := time.Now()
		rules := quorum.New(now, quorum.DefaultConfig(), quorum.NewLedger("c", "j", 1))
		join := quorum.Join{Client: quorum.KindSkerry, Kind: quorum.JoinFall, Number: 1,
			Member: quorum.Member{ReplicaID: "a", GroupWorldSize: 1, Address: "http://h:1", StoreAddress: "h:2"}}
		err := rules.Open(now, quorum.Hello{ReplicaID: "a", Client: quorum.KindSkerry})
		if err == nil {
			err = rules.Join(now, join)
		}
		if err != nil {
			t.Fatal(err)
		}
		m := (&served{leads: true}).metrics()
		m.Began("j", true)
		series := strings.Count(scraped(t, m), "\nskerry_lighthouse_lost_total{")
		c.f(rules, now)
		for _, e := range rules.Events() {
			m.Happened("j", e)
		}
		text := scraped(t, m)
		if got := strings.Count(text, "\nskerry_lighthouse_lost_total{"); got != series {
			t.Errorf("%s: %d series, %d before the loss", c.want, got, series)
		}
		has(t, text, `skerry_lighthouse_lost_total{job="j",reason="`+c.want+`"} 1`)
	}
}

// A fault's cost is the rules' own. A quorum that was asked for, or that has no member of the one
// before, repairs nothing.
func TestCosts(t *testing.T) {
	t.Parallel()
	m := (&served{leads: true}).metrics()
	stream := quorum.Cause{Kind: quorum.CauseStream, Replica: "a"}
	for _, c := range []quorum.Change{
		{Before: 3, Members: 2, Gone: []quorum.Cause{stream}, Cause: stream, Known: 4 * time.Millisecond,
			Reformed: 11 * time.Millisecond, Resumed: 150 * time.Millisecond},
		{Before: 2, Members: 3, Reformed: time.Second, Resumed: 2 * time.Second},
		{Before: 1, Members: 2, Gone: []quorum.Cause{stream}, Cause: stream, Reformed: time.Hour, Resumed: time.Hour},
		{Members: 2},
	} {
		m.Happened("j", quorum.Event{Kind: quorum.EventFormed, Change: &c})
		m.Happened("j", quorum.Event{Kind: quorum.EventResumed, Change: &c})
	}
	has(t, scraped(t, m), `skerry_lighthouse_quorums_formed_total{job="j"} 4`,
		`skerry_lighthouse_detect_seconds_sum{job="j"} 0.004`, `skerry_lighthouse_detect_seconds_count{job="j"} 1`,
		`skerry_lighthouse_reform_seconds_sum{job="j"} 0.011`, `skerry_lighthouse_reform_seconds_count{job="j"} 1`,
		`skerry_lighthouse_resume_seconds_sum{job="j"} 0.15`, `skerry_lighthouse_resume_seconds_count{job="j"} 1`)
}
