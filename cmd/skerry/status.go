package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
	"github.com/skerry-ft/skerry/cmd/internal/connect"
	"github.com/skerry-ft/skerry/cmd/skerry/internal/changes"
	"github.com/skerry-ft/skerry/cmd/skerry/internal/watch"
	"github.com/skerry-ft/skerry/internal/printable"
	"github.com/skerry-ft/skerry/lighthouse/api"
)

func newStatusCommand() *cobra.Command {
	var l connect.Flags
	var out cli.Output
	var wide, follow bool
	var every time.Duration
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what a lighthouse knows",
		Args:  cli.Args,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if follow {
				return watchStatus(cmd, &l, &out, every, wide)
			}
			st, body, err := l.Overview(cmd.Context())
			if err != nil {
				return err
			}
			err = out.PrintJSON(cmd.OutOrStdout(), body, func(w io.Writer) error { return printStatus(w, st, wide) })
			if err == nil && connect.Leaderless(st.Leads, st.Leader) {
				err = connect.ErrNoLeader
			}
			return err
		},
	}
	f := cmd.Flags()
	f.BoolVar(&wide, "wide", false, "show ids whole")
	f.BoolVarP(&follow, "watch", "w", false, "draw it in place, again and again, until q or Ctrl-C; in a pipe, a line for each change")
	f.DurationVar(&every, "every", time.Second, "with --watch: how long to wait between two looks")
	l.Add(cmd)
	out.Add(cmd)
	return cmd
}

// leastEvery keeps a watch from keeping a lighthouse busy.
const leastEvery = 100 * time.Millisecond

func watchStatus(cmd *cobra.Command, l *connect.Flags, out *cli.Output, every time.Duration, wide bool) error {
	switch {
	case out.JSON():
		return cli.Usagef("--watch with --output json: want one of them; skerry events --follow --output json goes on, too")
	case every < leastEvery:
		return cli.Usagef("--every = %v, want %v at least", every, leastEvery)
	}
	_, _, err := l.Overview(cmd.Context()) // what cannot work is said at once
	if s := cli.StatusOf(err); err != nil && s != cli.StatusNoLeader {
		return err
	}
	events, seen := l.Reader(""), changes.Latest{}
	in, _ := cmd.InOrStdin().(*os.File) // else there are no keys
	return watch.Run(cmd.Context(), watch.Config{
		Ask: func(ctx context.Context) (api.Overview, error) {
			st, _, err := l.Overview(ctx)
			return st, err
		},
		Changes: func(ctx context.Context) ([]api.Event, error) {
			fresh, err := events.Next(ctx)
			return seen.Add(fresh), err
		},
		Every: every, Wide: wide, In: in, Out: cmd.OutOrStdout(),
	})
}

// shownID is a replica's id as far as it is shown.
func shownID(id string, wide bool) string {
	if !wide {
		id = connect.Short(id)
	}
	return printable.Line(id)
}

// span shows milliseconds as people say them.
func span[T int64 | uint32](ms T) time.Duration { return time.Duration(ms) * time.Millisecond }

func printStatus(w io.Writer, s api.Overview, wide bool) error {
	role := "knows no leader"
	switch {
	case s.Leads:
		role = fmt.Sprintf("leads in term %d", s.Term)
	case s.Leader != "":
		role = fmt.Sprintf("leads in term %d (the server that was asked follows)", s.Term)
	}
	fmt.Fprintf(w, "lighthouse %s %s, up %v, %s, cluster %s\n",
		printable.Line(s.Addr), role, span(s.UptimeMs), cli.Plural(s.Sessions, "session"), printable.Line(s.Cluster))
	if s.OpenJoins {
		fmt.Fprintln(w, "joins are open: they need no token (--open-joins)")
	}
	if s.CertificateWarning != "" {
		fmt.Fprintln(w, printable.Line(s.CertificateWarning))
	}
	if len(s.Jobs) == 0 && role != "knows no leader" { // who does not lead knows none
		fmt.Fprintln(w, "no jobs")
	}
	for _, j := range s.Jobs {
		printJob(w, j, wide)
	}
	return nil
}

func printJob(w io.Writer, j api.Job, wide bool) {
	told := func(text string) string {
		if !wide {
			text = connect.Named(text)
		}
		return printable.Line(text)
	}
	fmt.Fprintf(w, "\njob %s: ", printable.Line(j.Job))
	if j.State != "" {
		fmt.Fprintf(w, "%s, ", printable.Line(j.State))
	}
	fmt.Fprintf(w, "%s, ", watch.Step(j))
	if j.StepRate > 0 {
		fmt.Fprintf(w, "%.1f steps/s, ", j.StepRate)
	}
	if j.Goodput > 0 {
		fmt.Fprintf(w, "goodput %.1f %%, ", 100*j.Goodput)
	}
	if left := watch.Left(j); left != "" {
		fmt.Fprintf(w, "%s, ", left)
	}
	switch {
	case j.QuorumID == 0:
		fmt.Fprint(w, "no quorum yet")
	case j.Stands:
		fmt.Fprintf(w, "quorum %s round %d stands, %s, %s", watch.Quorum(j, wide), j.Round,
			cli.Plural(j.Members, "member"), cli.Plural(j.Participants, "participant"))
	default:
		fmt.Fprintf(w, "quorum %s fell: %s", watch.Quorum(j, wide), told(j.FellBy))
	}
	fmt.Fprintln(w)
	if !j.Stands || j.Wanted != "" {
		fmt.Fprintf(w, "next: %s\n", told(j.Reason))
	}
	if j.Wanted != "" {
		fmt.Fprintf(w, "change wanted: %s\n", told(j.Wanted))
	}
	if wanted := watch.WantedReplicas(j); wanted != "" {
		fmt.Fprintf(w, "replicas wanted: %s\n", wanted)
	}
	timed := slices.ContainsFunc(j.Replicas, func(r api.Replica) bool { return r.StepMs > 0 })
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	head := "REPLICA\tSTATE\tPART\tSTEP\tPHASE\tSILENT\tWHY"
	if timed {
		head = "REPLICA\tSTATE\tPART\tSTEP\tOWN TIME\tWAITS\tPHASE\tSILENT\tWHY"
	}
	fmt.Fprintln(t, head)
	for _, r := range j.Replicas {
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t", shownID(r.ReplicaID, wide), printable.Line(r.State),
			partOf(r.Member, r.Participant, r.Heals && r.StepQuorum != j.QuorumID), r.Step)
		if timed {
			fmt.Fprintf(t, "%s\t%s\t", watch.Took(r.StepMs), watch.Took(r.WaitMs))
		}
		fmt.Fprintf(t, "%s\t%v\t%s\n", printable.Line(r.Phase), span(r.SilenceMs), told(r.Why))
	}
	_ = t.Flush() // as any other write to w
}

// partOf is how a replica takes part in the last quorum. A member that was behind heals
// until it has committed a step in that quorum.
func partOf(member, participant, heals bool) string {
	switch {
	case heals:
		return "heals"
	case participant:
		return "participant"
	case member:
		return "spare"
	}
	return "-"
}
