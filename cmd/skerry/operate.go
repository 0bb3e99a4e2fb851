package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
	"github.com/skerry-ft/skerry/cmd/internal/connect"
	"github.com/skerry-ft/skerry/internal/printable"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
)

// wishOf is what an operator wants of one replica.
type wishOf func(ctx context.Context, c skerrypb.LighthouseClient, job, id, reason string) error

// newReplicaCommands are the verbs about one replica.
func newReplicaCommands() []*cobra.Command {
	return []*cobra.Command{
		newReplicaCommand("drain", "Ask a replica to finish its step and leave", "draining",
			func(ctx context.Context, c skerrypb.LighthouseClient, job, id, reason string) error {
				_, err := c.Drain(ctx, &skerrypb.DrainRequest{Job: job, ReplicaId: id, Reason: reason})
				return err
			}),
		newReplicaCommand("undo", "Take back the drain of a replica, until the others have gone on without it", "stays",
			func(ctx context.Context, c skerrypb.LighthouseClient, job, id, reason string) error {
				_, err := c.Undrain(ctx, &skerrypb.UndrainRequest{Job: job, ReplicaId: id, Reason: reason})
				return err
			}),
		newReplicaCommand("evict", "Put a replica out, and refuse it from now on", "evicted",
			func(ctx context.Context, c skerrypb.LighthouseClient, job, id, reason string) error {
				_, err := c.Evict(ctx, &skerrypb.EvictRequest{Job: job, ReplicaId: id, Reason: reason})
				return err
			}),
		newReplicaCommand("kill", "End a replica's process through its manager", "killed",
			func(ctx context.Context, c skerrypb.LighthouseClient, job, id, reason string) error {
				_, err := c.KillReplica(ctx, &skerrypb.KillReplicaRequest{Job: job, ReplicaId: id, Reason: reason})
				return err
			}),
	}
}

func newReplicaCommand(verb, short, done string, wish wishOf) *cobra.Command {
	var l connect.Flags
	var out cli.Output
	var job, reason string
	cmd := &cobra.Command{
		Use:               verb + " REPLICA",
		Short:             short,
		Args:              cli.Args,
		ValidArgsFunction: l.CompleteReplicas(&job),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := l.Replica(cmd.Context(), job, args[0])
			if err != nil {
				return err
			}
			err = l.Call(cmd.Context(), func(ctx context.Context, c skerrypb.LighthouseClient) error {
				return wish(ctx, c, job, id, reason)
			})
			if err != nil {
				return fmt.Errorf("%s %s: %w", verb, id, err)
			}
			return out.Print(cmd.OutOrStdout(), verbAnswer{job, id, done, reason}, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "%s %s\n", printable.Line(id), done)
				return err
			})
		},
	}
	l.AddJob(cmd, &job, wire.DefaultJob, "the replica's job")
	cmd.Flags().StringVar(&reason, "reason", "asked for with skerry "+verb, "why; the replica and the history are told")
	l.Add(cmd)
	out.Add(cmd)
	return cmd
}

// verbAnswer is what a verb about a replica has done.
type verbAnswer struct {
	Job       string `json:"job"`
	ReplicaID string `json:"replica_id"`
	Done      string `json:"done"` // draining, stays, evicted or killed
	Reason    string `json:"reason"`
}

// newJobsCommand lists the jobs.
func newJobsCommand() *cobra.Command {
	var l connect.Flags
	var out cli.Output
	cmd := &cobra.Command{
		Use:   "jobs",
		Short: "List the jobs of a lighthouse, and their rules",
		Args:  cli.Args,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var resp *skerrypb.JobsResponse
			err := l.Call(cmd.Context(), func(ctx context.Context, c skerrypb.LighthouseClient) (err error) {
				resp, err = c.Jobs(ctx, &skerrypb.JobsRequest{})
				return err
			})
			if err != nil {
				return err
			}
			all := []jobAnswer{}
			for _, j := range resp.GetJobs() {
				all = append(all, jobOf(j))
			}
			return out.Print(cmd.OutOrStdout(), all, func(w io.Writer) error { return printJobs(w, all) })
		},
	}
	l.Add(cmd)
	out.Add(cmd)
	return cmd
}

// newJobCommand is what can be done to one job.
func newJobCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "job",
		Short: "Change a job's rules while it runs, or delete a job that nobody uses",
	}
	cmd.AddCommand(newJobConfigCommand(), newJobDeleteCommand())
	return cmd
}
