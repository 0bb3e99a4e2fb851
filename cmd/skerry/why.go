package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
	"github.com/skerry-ft/skerry/internal/printable"
	"github.com/skerry-ft/skerry/lighthouse"
)

// whyHistory is how many quorums back why looks.
const whyHistory = 5

// newWhyCommand tells the reasons of what is.
func newWhyCommand() *cobra.Command {
	var l lighthouseFlags
	var job string
	cmd := &cobra.Command{
		Use:   "why [REPLICA]",
		Short: "Tell why there is this quorum, why there is no other, and why a replica is not in it",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			st, _, err := l.status(cmd.Context())
			if err != nil {
				return err
			}
			meant := ""
			if len(args) > 0 {
				meant = args[0]
			}
			return explain(cmd.OutOrStdout(), st, job, meant)
		},
	}
	l.add(cmd)
	cmd.Flags().StringVar(&job, "job", "", "only this job")
	return cmd
}

// explain writes the reasons of the jobs that are meant.
func explain(w io.Writer, st lighthouse.Status, job, replica string) error {
	found := false
	for _, j := range st.Jobs {
		if job != "" && j.Job != job {
			continue
		}
		if replica == "" {
			found = true
			explainJob(w, j)
		}
		for _, r := range j.Replicas {
			if replica == "" && r.Why == "" || replica != "" && r.ReplicaID != replica && !strings.HasPrefix(r.ReplicaID, replica+":") {
				continue
			}
			found = true
			explainReplica(w, j, r)
		}
	}
	for _, r := range st.Refused {
		if job != "" || replica != "" && r.ReplicaID != replica && !strings.HasPrefix(r.ReplicaID, replica+":") {
			continue
		}
		found = true
		fmt.Fprintf(w, "refused %s, %s, last at %s: %s\n", printable.Line(r.ReplicaID), cli.Plural(r.Times, "time"),
			time.UnixMilli(r.AtMs).Format(time.TimeOnly), printable.Line(r.Reason))
	}
	switch {
	case !found && replica != "":
		return fmt.Errorf("no replica %q is known", replica)
	case !found && job != "":
		return fmt.Errorf("no job is called %q", job)
	case !found:
		fmt.Fprintln(w, "no jobs")
	}
	return nil
}

func explainJob(w io.Writer, j lighthouse.JobStatus) {
	fmt.Fprintf(w, "job %s\n", printable.Line(j.Job))
	switch {
	case j.QuorumID == 0:
		fmt.Fprintln(w, "  has had no quorum yet")
	case j.Stands:
		fmt.Fprintf(w, "  quorum %d round %d stands; it was formed because: %s\n", j.QuorumID, j.Round, printable.Line(j.Formed))
	default:
		fmt.Fprintf(w, "  quorum %d fell because: %s\n", j.QuorumID, printable.Line(j.FellBy))
	}
	fmt.Fprintf(w, "  the next one: %s\n", printable.Line(j.Reason))
	if j.Wanted != "" {
		fmt.Fprintf(w, "  a change is wanted: %s\n", printable.Line(j.Wanted))
	}
	for _, h := range j.History[:min(len(j.History), whyHistory)] {
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

func explainReplica(w io.Writer, j lighthouse.JobStatus, r lighthouse.ReplicaStatus) {
	fmt.Fprintf(w, "replica %s of job %s is %s", printable.Line(r.ReplicaID), printable.Line(j.Job), printable.Line(r.State))
	if r.Why != "" {
		fmt.Fprintf(w, ": %s", printable.Line(r.Why))
	}
	fmt.Fprintln(w)
	switch {
	case r.Member:
		fmt.Fprintf(w, "  %s in quorum %d, at step %d, %s; heard %v ago, made progress %v ago\n", partOf(r, j.QuorumID), j.QuorumID,
			r.Step, printable.Line(r.Phase), time.Duration(r.SilenceMs)*time.Millisecond, time.Duration(r.IdleMs)*time.Millisecond)
	case r.WaitingMs > 0:
		fmt.Fprintf(w, "  not in quorum %d; has waited for %v, because: %s\n", j.QuorumID,
			time.Duration(r.WaitingMs)*time.Millisecond, printable.Line(j.Reason))
	default:
		fmt.Fprintf(w, "  not in quorum %d, and has not joined\n", j.QuorumID)
	}
}
