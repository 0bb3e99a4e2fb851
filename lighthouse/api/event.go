package api

// Cause says why a replica went, or why a quorum ended. It names the culprit.
type Cause struct {
	// Kind is one of: unknown, stream (its stream to the lighthouse broke), silent (beats
	// were missed), link (peers' links to it broke), accused (one did, and it is not known
	// dead), left (its own word), drained, evicted, stuck, away, superseded (a new incarnation
	// took its place), refused, apart (it and another member do not reach each other), failed
	// (its own step did), absent (it did not join in time).
	Kind string `json:"kind"`
	// Replica is the replica that it is about, if it is about a single one.
	Replica string `json:"replica,omitempty"`
	// Witnesses are the peers that saw it.
	Witnesses []string `json:"witnesses,omitempty"`
	// Evidence is what was seen, for people. It comes from elsewhere: show it as text.
	Evidence string `json:"evidence,omitempty"`
	// By is the operator who asked for it.
	By string `json:"by,omitempty"`
	// Reason is the operator's, or the replica's own.
	Reason string `json:"reason,omitempty"`
}

// Cost is what a change of the quorum cost. All times are milliseconds from the first sign
// of the fault.
type Cost struct {
	// KnownMs passed until the fault was known.
	KnownMs float64 `json:"known_ms,omitempty"`
	// ReformedMs passed until the next quorum was formed.
	ReformedMs float64 `json:"reformed_ms,omitempty"`
	// ResumedMs passed until the first commit in it.
	ResumedMs float64 `json:"resumed_ms,omitempty"`
	// LostMs is the time of it in which no step was made.
	LostMs float64 `json:"lost_ms,omitempty"`
	// Step is the step that was under way.
	Step int64 `json:"step,omitempty"`
	// Outcome is what became of that step: discard (it is done anew), forward (it counts),
	// or empty.
	Outcome string `json:"outcome,omitempty"`
}

// Event is one thing that happened in a job.
type Event struct {
	Job string `json:"job"`
	// Seq rises with the events of the job; a new leader leaves a gap.
	Seq  int64 `json:"seq"`
	AtMs int64 `json:"at_ms"`
	// Kind is one of: formed, resumed, healed, lost, left, drained, evicted, draining, stays, kill,
	// configured, returned, stuck, away, moves (it was stuck, or away), refused, apart, mended,
	// probation, diverged, position_fell, restored, doubted, leader,
	// transfer (another server is to lead), scaled (another number of replicas is wanted),
	// finished.
	Kind string `json:"kind"`
	// Replica is the replica that it is about; empty: the job.
	Replica  string `json:"replica"`
	QuorumID int64  `json:"quorum_id,omitempty"`
	Round    int64  `json:"round,omitempty"`
	// Ordinal is the quorum's number among those of its job, from 1; 0: not known.
	Ordinal int64    `json:"ordinal,omitempty"`
	Cause   *Cause   `json:"cause,omitempty"`
	Members int      `json:"members,omitempty"`
	Before  int      `json:"before,omitempty"`
	Joined  []string `json:"joined,omitempty"`
	Gone    []Cause  `json:"gone,omitempty"`
	Cost    *Cost    `json:"cost,omitempty"`
	// By is who asked for it: a certificate's name, "token", or an address.
	By string `json:"by,omitempty"`
	// From is the address that it was asked from.
	From   string `json:"from,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Text is the event in one sentence.
	Text string `json:"text"`
	// What is the same without what it cost, for those who show that apart; empty: all of
	// text is.
	What string `json:"what,omitempty"`
}
