package wire

import (
	"time"

	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/quorum"
)

// MaxProbationAfter bounds how many short memberships bring a replica on
// probation: above it, nothing is remembered that long.
const MaxProbationAfter = quorum.MaxProbationAfter

// ConfigChange is what an operator wants changed of a job's rules; nil fields
// stay as they are.
type ConfigChange struct {
	Reset bool // back to the servers' own rules, before the rest

	MinReplicas      *int
	MaxReplicas      *int
	JoinTimeout      *time.Duration
	HeartbeatTimeout *time.Duration
	SuspectAfter     *time.Duration
	Grace            *time.Duration
	StuckAfter       *time.Duration
	EvictStuck       *bool
	ProbationAfter   *int
}

// ConfigChangeFromProto converts m.
func ConfigChangeFromProto(m *skerrypb.ConfigureRequest) (ConfigChange, error) {
	var c check
	c.enter("configure")
	r := ConfigChange{
		Reset:            m.GetReset_(),
		MinReplicas:      c.optionalNumber("min_replicas", m.MinReplicas, 1, MaxMembers),
		MaxReplicas:      c.optionalNumber("max_replicas", m.MaxReplicas, 0, MaxMembers),
		JoinTimeout:      c.optionalTimeout("join_timeout_ms", m.JoinTimeoutMs),
		HeartbeatTimeout: c.optionalTimeout("heartbeat_timeout_ms", m.HeartbeatTimeoutMs),
		SuspectAfter:     c.optionalTimeout("suspect_after_ms", m.SuspectAfterMs),
		Grace:            c.optionalTimeout("grace_ms", m.GraceMs),
		EvictStuck:       m.EvictStuck,
		ProbationAfter:   c.optionalNumber("probation_after", m.ProbationAfter, 0, MaxProbationAfter),
	}
	if m.StuckAfterMs != nil {
		r.StuckAfter = new(c.timeoutOrNone("stuck_after_ms", *m.StuckAfterMs))
	}
	return r, c.result()
}

func (c *check) optionalNumber(field string, v *uint32, lo, hi int64) *int {
	if v == nil {
		return nil
	}
	return new(int(c.number(field, int64(*v), lo, hi)))
}

func (c *check) optionalTimeout(field string, ms *uint32) *time.Duration {
	if ms == nil {
		return nil
	}
	return new(c.timeout(field, *ms))
}

// Apply returns base with the change made, but for Reset, which is the caller's:
// only it knows the servers' own rules.
func (c ConfigChange) Apply(base quorum.Config) quorum.Config {
	set(&base.MinReplicas, c.MinReplicas)
	set(&base.MaxReplicas, c.MaxReplicas)
	set(&base.JoinTimeout, c.JoinTimeout)
	set(&base.HeartbeatTimeout, c.HeartbeatTimeout)
	set(&base.SuspectAfter, c.SuspectAfter)
	set(&base.Grace, c.Grace)
	set(&base.StuckAfter, c.StuckAfter)
	set(&base.EvictStuck, c.EvictStuck)
	set(&base.ProbationAfter, c.ProbationAfter)
	return base
}

func set[T any](to *T, value *T) {
	if value != nil {
		*to = *value
	}
}

// RulesToProto converts a job's rules; own says that they were set for it.
func RulesToProto(c quorum.Config, own bool) *skerrypb.JobRules {
	return &skerrypb.JobRules{
		MinReplicas:        uint32(c.MinReplicas),
		MaxReplicas:        uint32(c.MaxReplicas),
		JoinTimeoutMs:      milliseconds(c.JoinTimeout),
		HeartbeatTimeoutMs: milliseconds(c.HeartbeatTimeout),
		SuspectAfterMs:     milliseconds(c.SuspectAfter),
		GraceMs:            milliseconds(c.Grace),
		StuckAfterMs:       millisecondsOrNone(c.StuckAfter),
		EvictStuck:         c.EvictStuck,
		ProbationAfter:     uint32(c.ProbationAfter),
		Own:                own,
	}
}
