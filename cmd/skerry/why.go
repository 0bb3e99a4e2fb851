package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
	"github.com/skerry-ft/skerry/cmd/internal/connect"
	"github.com/skerry-ft/skerry/internal/printable"
	"github.com/skerry-ft/skerry/lighthouse/api"
)

// whyHistory is how many quorums back why looks.
const whyHistory = 5

// newWhyCommand tells the reasons of what is.
func newWhyCommand() *cobra.Command {
	var l connect.Flags
	var out cli.Output
	var job string
	cmd := &cobra.Command{
		Use:               "why [REPLICA]",
		Short:             "Tell why there is this quorum, why there is no other, and why a replica is not in it",
		Args:              cli.Args,
		ValidArgsFunction: l.CompleteReplicas(&job),
		RunE: func(cmd *cobra.Command, args []string) error {
			st, _, err := l.Status(cmd.Context())
			if err != nil {
				return err
			}
			meant := ""
			if len(args) > 0 {
				meant = args[0]
			}
			answer, err := reasons(st, job, meant)
			if err != nil {
				return err
			}
			return out.Print(cmd.OutOrStdout(), answer, answer.writeText)
		},
	}
	l.AddJob(cmd, &job, "", "only this job")
	l.Add(cmd)
	out.Add(cmd)
	return cmd
}

// whyAnswer are the reasons of what is.
type whyAnswer struct {
	Jobs     []whyJob          `json:"jobs"`
	Replicas []whyReplica      `json:"replicas"`
	Refused  []api.RefusedJoin `json:"refused"`
}

// whyJob is why a job has its quorum, or none.
type whyJob struct {
	Job      string              `json:"job"`
	QuorumID int64               `json:"quorum_id"` // 0: none yet
	Round    int64               `json:"round"`
	Stands   bool                `json:"stands"`
	Formed   string              `json:"formed"`
	FellBy   string              `json:"fell_by"`
	Reason   string              `json:"reason"` // why there is no next quorum
	Wanted   string              `json:"wanted"`
	History  []api.HistoryStatus `json:"history"` // newest first
}

// whyReplica is why a replica is where it is.
type whyReplica struct {
	api.ReplicaStatus

	Job      string `json:"job"`
	QuorumID int64  `json:"quorum_id"`
	Reason   string `json:"reason"` // the job's
}

// reasons picks those of the jobs and replicas that are meant.
func reasons(st api.Status, job, replica string) (whyAnswer, error) {
	a := whyAnswer{Jobs: []whyJob{}, Replicas: []whyReplica{}, Refused: []api.RefusedJoin{}}
	var jobs []string
	found := false
	for _, j := range st.Jobs {
		jobs = append(jobs, j.Job)
		if job != "" && j.Job != job {
			continue
		}
		found = true
		if replica == "" {
			a.Jobs = append(a.Jobs, whyJob{
				Job: j.Job, QuorumID: j.QuorumID, Round: j.Round, Stands: j.Stands, Formed: j.Formed, FellBy: j.FellBy,
				Reason: j.Reason, Wanted: j.Wanted, History: j.History[:min(len(j.History), whyHistory)],
			})
		}
		for _, r := range j.Replicas {
			if replica == "" && r.Why != "" || replica != "" && connect.Means(replica, r.ReplicaID) {
				a.Replicas = append(a.Replicas, whyReplica{r, j.Job, j.QuorumID, j.Reason})
			}
		}
	}
	for _, r := range st.Refused {
		if job == "" && (replica == "" || connect.Means(replica, r.ReplicaID)) {
			a.Refused = append(a.Refused, r)
		}
	}
	switch {
	case connect.Leaderless(st.Leads, st.Leader) && len(st.Jobs) == 0:
		return a, connect.ErrNoLeader
	case job != "" && !found:
		return a, connect.NoJob(job, jobs)
	case replica != "" && len(a.Replicas)+len(a.Refused) == 0:
		return a, cli.WithStatus(cli.StatusNotFound, fmt.Errorf("no replica %q is known; skerry status lists the replicas", replica))
	}
	return a, nil
}

// writeText writes the reasons for people.
func (a whyAnswer) writeText(w io.Writer) error {
	next := 0 // of the replicas, which come in the order of their jobs
	tell := func(job string) {
		for ; next < len(a.Replicas) && (job == "" || a.Replicas[next].Job == job); next++ {
			a.Replicas[next].writeText(w)
		}
	}
	for _, j := range a.Jobs {
		j.writeText(w)
		tell(j.Job)
	}
	tell("")
	for _, r := range a.Refused {
		fmt.Fprintf(w, "refused %s, %s, last at %s: %s\n", printable.Line(r.ReplicaID), cli.Plural(r.Times, "time"),
			time.UnixMilli(r.AtMs).Format(time.TimeOnly), printable.Line(r.Reason))
	}
	if len(a.Jobs)+len(a.Replicas)+len(a.Refused) == 0 {
		fmt.Fprintln(w, "no jobs")
	}
	return nil
}

func (j whyJob) writeText(w io.Writer) {
	fmt.Fprintf(w, "job %s\n", printable.Line(j.Job))
	switch {
	case j.QuorumID == 0:
		fmt.Fprintln(w, "  has had no quorum yet")
	case j.Stands:
		fmt.Fprintf(w, "  quorum %d round %d stands; it was formed because: %s\n", j.QuorumID, j.Round, printable.Line(j.Formed))
	default:
		fmt.Fprintf(w, "  quorum %d fell because: %s\n", j.QuorumID, printable.Line(j.FellBy))
	}
	if !j.Stands || j.Wanted != "" {
		fmt.Fprintf(w, "  the next one: %s\n", printable.Line(j.Reason))
	}
	if j.Wanted != "" {
		fmt.Fprintf(w, "  a change is wanted: %s\n", printable.Line(j.Wanted))
	}
	for _, h := range j.History {
		fmt.Fprintf(w, "  %s quorum %d round %d of %s: %s\n", time.UnixMilli(h.AtMs).Format(time.TimeOnly), h.QuorumID, h.Round,
			cli.Plural(h.Members, "member"), printable.Line(h.Reason))
		if h.Settled != "" {
			fmt.Fprintf(w, "    settled: %s\n", printable.Line(h.Settled))
		}
		for _, a := range h.Accusations {
			fmt.Fprintf(w, "    %s\n", printable.Line(a))
		}
	}
}

func (r whyReplica) writeText(w io.Writer) {
	fmt.Fprintf(w, "replica %s of job %s is %s", printable.Line(r.ReplicaID), printable.Line(r.Job), printable.Line(r.State))
	if r.Why != "" {
		fmt.Fprintf(w, ": %s", printable.Line(r.Why))
	}
	fmt.Fprintln(w)
	switch {
	case r.Member:
		fmt.Fprintf(w, "  %s in quorum %d, at step %d, %s; heard %v ago, made progress %v ago\n", partOf(r.Member, r.Participant, r.Heals && r.StepQuorum != r.QuorumID), r.QuorumID,
			r.Step, printable.Line(r.Phase), span(r.SilenceMs), span(r.IdleMs))
	case r.WaitingMs > 0:
		fmt.Fprintf(w, "  not in quorum %d; has waited for %v, because: %s\n", r.QuorumID,
			span(r.WaitingMs), printable.Line(r.Reason))
	default:
		fmt.Fprintf(w, "  not in quorum %d, and has not joined\n", r.QuorumID)
	}
}
