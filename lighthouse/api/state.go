package api

// Head is what a lighthouse says of itself.
type Head struct {
	Cluster string `json:"cluster"`
	Version string `json:"version"`
	// Addr is where the server listens whose view this is: the leader, if there is one,
	// whichever server was asked.
	Addr string `json:"addr"`
	// Leads is the role of the server that was asked.
	Leads bool `json:"leads"`
	// Leader is the leader's address as clients dial it; empty: no leader is known.
	Leader    string `json:"leader"`
	Term      uint64 `json:"term"`
	StartedMs int64  `json:"started_ms"` // when the server began whose view this is
	Sessions  int64  `json:"sessions"`
	Durable   bool   `json:"durable"`
	// OpenJoins says that replicas join without the token, though there is one.
	OpenJoins bool `json:"open_joins,omitempty"`
	// CertificateUntilMs is when the certificate of the server whose view this is, or its
	// CA's, ends. CertificateWarning says so when that is near, or past.
	CertificateUntilMs int64  `json:"certificate_until_ms,omitempty"`
	CertificateWarning string `json:"certificate_warning,omitempty"`
	// Refused are joins of torchft's that were refused, newest first.
	Refused []RefusedJoin `json:"refused,omitempty"`
}

// Overview is the answer of GET /api/v1/status.
type Overview struct {
	Head
	NowMs    int64    `json:"now_ms"`
	UptimeMs int64    `json:"uptime_ms"`
	Servers  []string `json:"servers"` // the addresses of all that are known
	Jobs     []Job    `json:"jobs"`
}

// Job is one job with its replicas.
type Job struct {
	JobFacts
	Replicas []Replica `json:"replicas"`
}

// JobFacts is one job without its replicas.
type JobFacts struct {
	Job    string `json:"job"`
	Client string `json:"client"`
	// State is one of: training, reforming (its quorum fell, and the next one is being put
	// together), waiting (it cannot be formed; reason says why), finished (all went in good
	// order), idle (no replica is here).
	State        string `json:"state"`
	StateSinceMs int64  `json:"state_since_ms,omitempty"`
	Fell         *Cause `json:"fell,omitempty"`    // why the quorum fell
	FellBy       string `json:"fell_by"`           // the same in words; empty: it stands
	QuorumID     int64  `json:"quorum_id"`         // 0: none yet
	Ordinal      int64  `json:"ordinal,omitempty"` // the quorum's number among those of its job, from 1
	Round        int64  `json:"round"`
	CreatedMs    int64  `json:"created_ms"`
	Formed       string `json:"formed"` // why the last quorum was formed
	Stands       bool   `json:"stands"` // the last quorum stands
	Wanted       string `json:"wanted"` // what change is wanted, if any
	// Reason says why there is no next quorum; reason_code is the same for programs.
	Reason       string `json:"reason"`
	ReasonCode   string `json:"reason_code,omitempty"`
	MaxStep      int64  `json:"max_step"` // highest step known
	Members      int    `json:"members"`
	Participants int    `json:"participants"`
	// StepRate is the steps a second of the last ten seconds or so.
	StepRate float64 `json:"step_rate,omitempty"`
	// Goodput is the share of the time since the first quorum that no change cost, from 0
	// to 1; lost_ms is the time that was.
	Goodput float64 `json:"goodput,omitempty"`
	LostMs  int64   `json:"lost_ms,omitempty"`
	// StepsTotal is how many steps the run has, where its trainers say that; eta_ms is how
	// long it takes from here, at the rate of the last minutes.
	StepsTotal int64 `json:"steps_total,omitempty"`
	EtaMs      int64 `json:"eta_ms,omitempty"`
	LastSeq    int64 `json:"last_seq"` // of its events; 0: there are none
	// WantedReplicas is how many replicas an operator wants; absent: none has said so.
	WantedReplicas *Wanted `json:"wanted_replicas,omitempty"`
	// Launchers is how many skerry run of the job have asked for that of late.
	Launchers int `json:"launchers,omitempty"`
	Rules
}

// Wanted is how many replicas are wanted of a job, and who asked for them.
type Wanted struct {
	Replicas int   `json:"replicas"`
	AtMs     int64 `json:"at_ms"` // rises with each order
	// By is who asked: a certificate's name, "token", or an address.
	By string `json:"by,omitempty"`
	// From is the address that it was asked from.
	From   string `json:"from,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Rules are the rules in force of a job, and how often its sessions beat.
type Rules struct {
	MinReplicas        int   `json:"min_replicas"`
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
}

// Replica is one replica of a job. In the stream's document what ticks is left out or
// coarse: see Document.
type Replica struct {
	ReplicaID string `json:"replica_id"`
	// State is one of: heard, joined, held, kept apart, refused, on probation, healing,
	// live, straggler, suspect, stuck, away, draining, left, drained, evicted, lost.
	State       string  `json:"state"`
	Why         string  `json:"why,omitempty"`
	Cause       *Cause  `json:"cause,omitempty"`
	Member      bool    `json:"member"`
	Participant bool    `json:"participant"`
	Heals       bool    `json:"heals"`
	Heal        *Heal   `json:"heal,omitempty"` // while it heals
	Session     bool    `json:"session"`
	Straggler   bool    `json:"straggler"`
	Step        int64   `json:"step,omitempty"`
	StepQuorum  int64   `json:"step_quorum_id,omitempty"`
	Behind      int64   `json:"behind,omitempty"` // steps behind the job
	Phase       string  `json:"phase,omitempty"`
	Progress    uint64  `json:"progress,omitempty"`
	StepMs      float64 `json:"step_ms,omitempty"` // its own time of the last steps
	WaitMs      float64 `json:"wait_ms,omitempty"` // its waiting for others in the last steps
	SilenceMs   int64   `json:"silence_ms,omitempty"`
	IdleMs      int64   `json:"idle_ms,omitempty"`
	WaitingMs   int64   `json:"waiting_ms,omitempty"` // since its join
	Address     string  `json:"address,omitempty"`
}

// Heal is the progress of a heal.
type Heal struct {
	Bytes      int64    `json:"bytes"`
	TotalBytes int64    `json:"total_bytes,omitempty"`
	From       []string `json:"from"`
	MBPerS     float64  `json:"mb_per_s,omitempty"`
}

// Document is what GET /api/v1/stream tells first, and then patches (RFC 7386). Lists are
// maps by name, so that a patch can change one row. It is coarse, so that it stands still
// while a job trains: silence counts in whole seconds, and above one; phases are told
// apart from training and balloting alone; times of steps have one and a half digits, and
// are told once in five seconds, when they differ by more than a sixteenth of a step.
type Document struct {
	Head
	NowMs   int64                  `json:"now_ms"` // when the document was made; no patch changes it
	Jobs    map[string]JobDocument `json:"jobs"`
	Servers map[string]ServerFacts `json:"servers"`
}

// JobDocument is one job in a Document.
type JobDocument struct {
	JobFacts
	Replicas map[string]Replica `json:"replicas"`
}

// Servers is the answer of GET /api/v1/servers.
type Servers struct {
	Asked    string        `json:"asked"`    // where the server listens that was asked
	Answered string        `json:"answered"` // where the server listens that answered
	Cluster  string        `json:"cluster"`
	Term     uint64        `json:"term"`
	Next     string        `json:"next,omitempty"` // the next change of the members, or what it waits for
	Servers  []ServerFacts `json:"servers"`
}

// ServerFacts is one server of the cluster.
type ServerFacts struct {
	ID      string `json:"id"`
	Addr    string `json:"addr"`
	Raft    string `json:"raft_addr,omitempty"`
	Version string `json:"version,omitempty"`
	// State is one of: leader, follower, spare (no voter), joining (not in raft yet), away
	// (the others do not hear it).
	State     string `json:"state"`
	Leader    bool   `json:"leader"`
	Voter     bool   `json:"voter"`
	Alive     bool   `json:"alive"`
	LastIndex uint64 `json:"last_index,omitempty"` // of the leader's log that it has, as it last said
	Lag       uint64 `json:"lag"`                  // entries that it has yet to get
	SilenceMs uint64 `json:"silence_ms,omitempty"`
}
