package api

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
	Rules

	Replicas []ReplicaStatus `json:"replicas"`
	History  []HistoryStatus `json:"history"` // newest first
	Events   []Note          `json:"events"`  // newest first
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

// RefusedJoin is a join of torchft's that was refused. torchft does not tell its
// ranks: they wait for their deadline.
type RefusedJoin struct {
	AtMs      int64  `json:"at_ms"` // of the newest
	ReplicaID string `json:"replica_id"`
	Reason    string `json:"reason"`
	Times     int64  `json:"times"`
}

// Note is what the rules noted, with the time that pages show.
type Note struct {
	AtMs int64  `json:"at_ms"`
	Text string `json:"text"`
}
