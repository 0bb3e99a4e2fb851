package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/skerry-ft/skerry/internal/printable"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
)

// jobAnswer is a job as the commands tell of it.
type jobAnswer struct {
	Job      string      `json:"job"`
	Client   string      `json:"client"`
	QuorumID int64       `json:"quorum_id"` // 0: none yet
	Stands   bool        `json:"stands"`
	Members  uint32      `json:"members"`
	Replicas uint32      `json:"replicas"`
	Step     int64       `json:"step"`
	Rules    rulesAnswer `json:"rules"`
}

func jobOf(j *skerrypb.JobInfo) jobAnswer {
	return jobAnswer{
		Job: j.GetJob(), Client: j.GetClient(), QuorumID: j.GetQuorumId(), Stands: j.GetStands(),
		Members: j.GetMembers(), Replicas: j.GetReplicas(), Step: j.GetStep(), Rules: rulesOf(j.GetRules()),
	}
}

func printJobs(w io.Writer, jobs []jobAnswer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "JOB\tCLIENT\tQUORUM\tSTANDS\tMEMBERS\tREPLICAS\tSTEP\tRULES")
	for _, j := range jobs {
		fmt.Fprintf(t, "%s\t%s\t%d\t%t\t%d\t%d\t%d\t%s\n", printable.Line(j.Job), printable.Line(j.Client), j.QuorumID,
			j.Stands, j.Members, j.Replicas, j.Step, j.Rules)
	}
	return t.Flush()
}

// rulesAnswer are a job's rules.
type rulesAnswer struct {
	Own                bool   `json:"own"` // false: the server's
	MinReplicas        uint32 `json:"min_replicas"`
	MaxReplicas        uint32 `json:"max_replicas"` // 0: no bound of its own
	JoinTimeoutMs      uint32 `json:"join_timeout_ms"`
	HeartbeatTimeoutMs uint32 `json:"heartbeat_timeout_ms"`
	SuspectAfterMs     uint32 `json:"suspect_after_ms"`
	GraceMs            uint32 `json:"grace_ms"`
	StuckAfterMs       uint32 `json:"stuck_after_ms"` // 0: never
	EvictStuck         bool   `json:"evict_stuck"`
	ProbationAfter     uint32 `json:"probation_after"` // 0: never
}

func rulesOf(r *skerrypb.JobRules) rulesAnswer {
	return rulesAnswer{
		Own: r.GetOwn(), MinReplicas: r.GetMinReplicas(), MaxReplicas: r.GetMaxReplicas(), JoinTimeoutMs: r.GetJoinTimeoutMs(),
		HeartbeatTimeoutMs: r.GetHeartbeatTimeoutMs(), SuspectAfterMs: r.GetSuspectAfterMs(), GraceMs: r.GetGraceMs(),
		StuckAfterMs: r.GetStuckAfterMs(), EvictStuck: r.GetEvictStuck(), ProbationAfter: r.GetProbationAfter(),
	}
}

// String is the rules in the words of the flags that set them.
func (r rulesAnswer) String() string {
	whose := "server's"
	if r.Own {
		whose = "own"
	}
	return fmt.Sprintf("%s: min-replicas=%d max-replicas=%d join-timeout=%v heartbeat-timeout=%v suspect-after=%v grace=%v "+
		"stuck-after=%v evict-stuck=%t probation-after=%d", whose, r.MinReplicas, r.MaxReplicas, span(r.JoinTimeoutMs),
		span(r.HeartbeatTimeoutMs), span(r.SuspectAfterMs), span(r.GraceMs), span(r.StuckAfterMs), r.EvictStuck, r.ProbationAfter)
}
