package api

// The bounds of an action's body.
const (
	// MaxReasonBytes bounds a reason.
	MaxReasonBytes = 512

	// MaxBodyBytes bounds the body of a request.
	MaxBodyBytes = 16 << 10
)

// Action is the body of a drain, an evict, a kill or an undo.
type Action struct {
	// Reason says why, in 1 to 512 bytes. It stands in the history.
	Reason string `json:"reason"`
}

// Scale is the body of an order for a number of replicas.
type Scale struct {
	// Replicas is how many replicas the job is to have. Its launchers see to it. 0 takes the number
	// back: they keep what they have, and the next run begins with what its launchers say.
	Replicas *int `json:"replicas"`
	// Reason says why, in 1 to 512 bytes. It stands in the history.
	Reason string `json:"reason"`
}

// RulesChange is the body of a change of a job's rules. What is absent stays as it is.
type RulesChange struct {
	// Reason says why, in 1 to 512 bytes. It stands in the history.
	Reason string `json:"reason"`
	// Reset goes back to the servers' own rules, before the rest.
	Reset              bool    `json:"reset,omitempty"`
	MinReplicas        *uint32 `json:"min_replicas,omitempty"`
	MaxReplicas        *uint32 `json:"max_replicas,omitempty"` // 0: no bound of its own
	JoinTimeoutMs      *uint32 `json:"join_timeout_ms,omitempty"`
	HeartbeatTimeoutMs *uint32 `json:"heartbeat_timeout_ms,omitempty"`
	SuspectAfterMs     *uint32 `json:"suspect_after_ms,omitempty"`
	GraceMs            *uint32 `json:"grace_ms,omitempty"`
	StuckAfterMs       *uint32 `json:"stuck_after_ms,omitempty"` // 0: never
	EvictStuck         *bool   `json:"evict_stuck,omitempty"`
	ProbationAfter     *uint32 `json:"probation_after,omitempty"` // 0: never
}

// Transfer is the body of a transfer of the leadership.
type Transfer struct {
	// To is the id or the address of a server; empty: any that is able.
	To string `json:"to,omitempty"`
	// Reason says why, in 1 to 512 bytes.
	Reason string `json:"reason"`
}

// Failure is the body of every answer that is an error.
type Failure struct {
	Error Problem `json:"error"`
}

// Problem is one error.
type Problem struct {
	// Code is for programs. It is one of: invalid, unauthorized, other site, forbidden, not found,
	// unknown job, unknown replica, unknown server, wrong method, conflict, too large,
	// misdirected, busy, no leader, unreachable.
	Code string `json:"code"`
	// Message says what was wrong, what is wanted, and what to do.
	Message string `json:"message"`
}
