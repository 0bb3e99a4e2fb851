package metrics

import (
	"context"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/skerry-ft/skerry/quorum"
)

// Source is the server that is measured. All functions are safe for concurrent use.
type Source struct {
	Version          string
	LogLeftOut       func() uint64
	CertificateUntil func() float64 // Unix seconds; 0: none
	Sessions         func() int64

	// Leads says whether this server leads, and Jobs are those that it then has.
	Leads func() bool
	Jobs  func(ctx context.Context) []quorum.Status
	// Known says whether a job is in this server's copy of the ledger.
	Known func(job string) bool
	// Raft is where this server's log is; false: it is not open yet.
	Raft func() (Raft, bool)
}

// Raft is where a server's log is.
type Raft struct {
	LastIndex, CommitIndex, AppliedIndex, Term uint64

	// Contact is when the leader was last heard; zero: never.
	Contact time.Time
	Leads   bool
}

// scrapeTimeout bounds how long a scrape waits for the jobs, of which one may be busy.
const scrapeTimeout = 5 * time.Second

// The series that a scrape reads.
var (
	descLeader = describe("leader", "1 if this server leads.")

	descRaftLast    = describe("raft_last_index", "Index of the last entry of this server's raft log, on followers too.")
	descRaftCommit  = describe("raft_commit_index", "Index up to which this server knows the raft log to be committed.")
	descRaftApplied = describe("raft_applied_index", "Index up to which this server's copy of the ledger goes.")
	descRaftTerm    = describe("raft_term", "Raft term that this server is in.")
	descRaftContact = describe("raft_leader_contact_seconds",
		"Seconds since this server heard the raft leader; 0 on the leader, absent where none was heard yet.")

	descQuorumID  = describe("quorum_id", "Id of the last quorum; 0 before the first.", "job")
	descMembers   = describe("members", "Members of the last quorum.", "job")
	descMinimum   = describe("min_replicas", "Fewest members that a quorum may have, by the rules in force.", "job")
	descStanding  = describe("standing", "1 if the last quorum stands, 0 if it fell or there was none.", "job")
	descStep      = describe("step", "Highest step that is known of any replica.", "job")
	descReplicas  = describe("replicas", "Replicas that are known, by state; those that are gone until they are forgotten.", "job", "state")
	descJobState  = describe("job_state", "1 for the state that the job is in, 0 for all others.", "job", "state")
	replicaStates = []quorum.ReplicaState{
		quorum.StateEvicted, quorum.StateLost, quorum.StateDrained, quorum.StateLeft, quorum.StateHealing, quorum.StateStuck, quorum.StateAway, quorum.StateDraining, quorum.StateSuspect,
		quorum.StateProbation, quorum.StateApart, quorum.StateRefused, quorum.StateHeld, quorum.StateJoined, quorum.StateLive,
		quorum.StateHeard,
	}
)

var jobStates = []quorum.JobState{quorum.JobTraining, quorum.JobReforming, quorum.JobWaiting, quorum.JobFinished, quorum.JobIdle}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prefix+name, help, labels, nil)
}

// scrape reads the server's state when it is asked for, so nothing of it is stale: what
// is of the leader's jobs is not there on a server that does not lead.
type scrape struct{ m *Metrics }

// Describe implements prometheus.Collector.
func (s *scrape) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descLeader, descRaftLast, descRaftCommit, descRaftApplied, descRaftTerm, descRaftContact,
		descQuorumID, descMembers, descMinimum, descStanding, descStep, descJobState, descReplicas,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (s *scrape) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	show := func(d *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	show(descLeader, number(s.m.source.Leads()))
	for _, st := range s.m.source.Jobs(ctx) {
		showJob(show, st)
	}
	r, open := s.m.source.Raft()
	if !open {
		return
	}
	show(descRaftLast, float64(r.LastIndex))
	show(descRaftCommit, float64(r.CommitIndex))
	show(descRaftApplied, float64(r.AppliedIndex))
	show(descRaftTerm, float64(r.Term))
	switch {
	case r.Leads:
		show(descRaftContact, 0)
	case !r.Contact.IsZero():
		show(descRaftContact, max(time.Since(r.Contact), 0).Seconds())
	}
}

// showJob shows one job as it is.
func showJob(show func(d *prometheus.Desc, value float64, labels ...string), st quorum.Status) {
	id, members := int64(0), 0
	if q := st.Last; q != nil {
		id, members = q.ID, len(q.Members)
	}
	show(descQuorumID, float64(id), st.Job)
	show(descMembers, float64(members), st.Job)
	show(descMinimum, float64(st.Config.MinReplicas), st.Job)
	show(descStanding, number(st.Stands), st.Job)
	for _, state := range jobStates {
		show(descJobState, number(st.State == state), st.Job, string(state))
	}
	step, states := int64(0), make(map[quorum.ReplicaState]int)
	for _, state := range replicaStates {
		states[state] = 0 // so that an alert on one finds a series
	}
	for _, r := range st.Replicas {
		step = max(step, r.Position.Step, r.Beat.Position.Step)
		states[r.State]++
	}
	show(descStep, float64(step), st.Job)
	for state, n := range states {
		show(descReplicas, float64(n), st.Job, strings.ReplaceAll(string(state), " ", "_"))
	}
}

func number(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
