package lighthouse

import (
	"context"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// Status is what the page and /status.json show: one struct for both. Times
// and ages are in milliseconds.
type Status struct {
	Cluster string `json:"cluster"`
	Version string `json:"version"`
	// Addr is where the server listens whose view this is: the leader, if there
	// is one, whichever server was asked.
	Addr string `json:"addr"`
	// Leads is the role of the server that was asked. One that follows has the
	// leader answer, and says false.
	Leads bool `json:"leads"`
	// Leader is the leader's address as clients dial it; "": no leader is known.
	Leader   string   `json:"leader"`
	Servers  []string `json:"servers"` // all that are known
	Term     uint64   `json:"term"`
	UptimeMs int64    `json:"uptime_ms"`
	NowMs    int64    `json:"now_ms"`
	Sessions int64    `json:"sessions"`
	Durable  bool     `json:"durable"`
	// OpenJoins says that replicas join without the token, though there is one.
	OpenJoins bool `json:"open_joins,omitempty"`
	// CertificateUntilMs is when the certificate of the server whose view this is, or its
	// CA's, ends; 0 without one. CertificateWarning says so when that is near, or past.
	CertificateUntilMs int64  `json:"certificate_until_ms,omitempty"`
	CertificateWarning string `json:"certificate_warning,omitempty"`

	Jobs []JobStatus `json:"jobs"`

	Refused []RefusedJoin `json:"refused,omitempty"` // joins of torchft's, newest first
}

// JobStatus is one job.
type JobStatus struct {
	Job          string `json:"job"`
	Client       string `json:"client"`
	QuorumID     int64  `json:"quorum_id"` // 0: none yet
	Round        int64  `json:"round"`
	CreatedMs    int64  `json:"created_ms"`
	Formed       string `json:"formed"`   // why the last quorum was formed
	Stands       bool   `json:"stands"`   // the last quorum stands
	FellBy       string `json:"fell_by"`  // why it fell, if it did
	Wanted       string `json:"wanted"`   // what change is wanted, if any
	Reason       string `json:"reason"`   // why there is no next quorum
	MaxStep      int64  `json:"max_step"` // highest step known
	Members      int    `json:"members"`
	Participants int    `json:"participants"`
	MinReplicas  int    `json:"min_replicas"`

	// The rules in force, and how often sessions beat.
	MaxReplicas        int   `json:"max_replicas"` // 0: no bound of its own
	JoinTimeoutMs      int64 `json:"join_timeout_ms"`
	HeartbeatTimeoutMs int64 `json:"heartbeat_timeout_ms"`
	SuspectAfterMs     int64 `json:"suspect_after_ms"`
	GraceMs            int64 `json:"grace_ms"`
	StuckAfterMs       int64 `json:"stuck_after_ms"` // 0: never
	EvictStuck         bool  `json:"evict_stuck"`
	ProbationAfter     int   `json:"probation_after"` // 0: never
	StepTimeMs         int64 `json:"step_time_ms"`    // the median of late; 0: not known
	BeatIntervalMs     int64 `json:"beat_interval_ms"`

	Replicas []ReplicaStatus `json:"replicas"`
	History  []HistoryStatus `json:"history"` // newest first
	Events   []Event         `json:"events"`  // newest first
}

// ReplicaStatus is one replica.
type ReplicaStatus struct {
	ReplicaID   string `json:"replica_id"`
	State       string `json:"state"`
	Why         string `json:"why,omitempty"`
	Member      bool   `json:"member"`
	Participant bool   `json:"participant"`
	Heals       bool   `json:"heals"`
	Session     bool   `json:"session"`
	Step        int64  `json:"step"`
	StepQuorum  int64  `json:"step_quorum_id"`
	Phase       string `json:"phase"`
	Progress    uint64 `json:"progress"`
	SilenceMs   int64  `json:"silence_ms"`
	IdleMs      int64  `json:"idle_ms"`
	WaitingMs   int64  `json:"waiting_ms"` // since its join; 0: it has not joined
	Address     string `json:"address"`
}

// HistoryStatus is one formed quorum.
type HistoryStatus struct {
	AtMs        int64    `json:"at_ms"`
	QuorumID    int64    `json:"quorum_id"`
	Round       int64    `json:"round"`
	Members     int      `json:"members"`
	Joined      []string `json:"joined"`
	Left        []string `json:"left"`
	Reason      string   `json:"reason"`
	Settled     string   `json:"settled,omitempty"`
	Accusations []string `json:"accusations,omitempty"`
}

// pageHistory is how many quorums and events the page shows of each job.
const pageHistory = 40

// Status returns the present state. Without a leadership it has no jobs.
func (s *Server) Status(ctx context.Context) (Status, error) {
	now := time.Now()
	st := Status{
		Version: s.cfg.Version, Addr: s.Addr().String(), UptimeMs: now.Sub(s.started).Milliseconds(),
		NowMs: now.UnixMilli(), Sessions: s.sessions.Load(), Durable: s.cfg.DataDir != "", Jobs: []JobStatus{}, Servers: s.cluster.Servers(),
		OpenJoins: s.openJoins(),
	}
	if s.guard.TLS != nil {
		e := s.guard.TLS.Expiry()
		st.CertificateUntilMs, st.CertificateWarning = e.Until.UnixMilli(), e.Warning(now)
	}
	lead := s.leading()
	if lead == nil {
		if addr, self, ok := s.cluster.Leader(); ok && !self {
			st.Leader = addr
		}
		return st, nil
	}
	st.Refused = s.refused.list()
	st.Cluster, st.Leads, st.Term, st.Leader = lead.ledger.Cluster(), true, lead.term, s.address()
	for _, j := range lead.all() {
		var one JobStatus
		if err := j.do(ctx, func(now time.Time) { one = j.status(now) }); err != nil {
			return st, err
		}
		one.History = historyStatus(lead.ledger.Job(j.name, 0).History)
		st.Jobs = append(st.Jobs, one)
	}
	return st, nil
}

// status reads the machine, on the job's goroutine.
func (j *job) status(now time.Time) JobStatus {
	m := j.machine.Status(now)
	st := JobStatus{
		Job: j.name, Client: m.Client.String(), Stands: m.Stands, FellBy: m.Fell.String(), Wanted: m.Wanted,
		Reason: m.Reason.String(), Replicas: []ReplicaStatus{},
		MinReplicas: m.Config.MinReplicas, MaxReplicas: m.Config.MaxReplicas,
		JoinTimeoutMs:      m.Config.JoinTimeout.Milliseconds(),
		HeartbeatTimeoutMs: m.Config.HeartbeatTimeout.Milliseconds(),
		SuspectAfterMs:     m.Config.SuspectAfter.Milliseconds(),
		GraceMs:            m.Config.Grace.Milliseconds(),
		StuckAfterMs:       m.StuckAfter.Milliseconds(),
		ProbationAfter:     m.Config.ProbationAfter,
		StepTimeMs:         m.StepTime.Milliseconds(),
		EvictStuck:         m.Config.EvictStuck,
		BeatIntervalMs:     j.timing().BeatInterval.Milliseconds(),
	}
	if q := m.Last; q != nil {
		st.QuorumID, st.Round, st.CreatedMs, st.Formed = q.ID, q.Round, q.CreatedMs, q.Reason
		st.Members, st.Participants = len(q.Members), len(q.Participants)
	}
	for _, r := range m.Replicas {
		st.MaxStep = max(st.MaxStep, r.Position.Step, r.Beat.Position.Step)
		st.Replicas = append(st.Replicas, replicaStatus(r))
	}
	for i := len(j.events) - 1; i >= 0 && len(st.Events) < pageHistory; i-- {
		st.Events = append(st.Events, j.events[i])
	}
	return st
}

func replicaStatus(r quorum.ReplicaStatus) ReplicaStatus {
	at := r.Position
	if r.Beat.Position.Compare(at) > 0 {
		at = r.Beat.Position
	}
	return ReplicaStatus{
		ReplicaID: string(r.ReplicaID), State: string(r.State), Why: r.Why,
		Member: r.Member, Participant: r.Participant, Heals: r.Heals, Session: r.Session,
		Step: at.Step, StepQuorum: at.QuorumID, Phase: r.Beat.Phase.String(), Progress: r.Beat.Progress,
		SilenceMs: r.Silence.Milliseconds(), IdleMs: r.Idle.Milliseconds(),
		WaitingMs: r.Waiting.Milliseconds(), Address: r.Address,
	}
}

func historyStatus(all []quorum.HistoryEntry) []HistoryStatus {
	st := []HistoryStatus{}
	for i := len(all) - 1; i >= 0 && len(st) < pageHistory; i-- {
		e := all[i]
		h := HistoryStatus{
			AtMs: e.CreatedMs, QuorumID: e.QuorumID, Round: e.Round, Members: max(e.Size, len(e.Members)),
			Joined: texts(e.Joined), Left: texts(e.Left), Reason: e.Reason,
		}
		if e.Settlement.Settles() {
			h.Settled = e.Settlement.String()
		}
		for _, a := range e.Accusations {
			h.Accusations = append(h.Accusations, string(a.By)+" accused "+string(a.Against)+": "+a.Evidence)
		}
		st = append(st, h)
	}
	return st
}
