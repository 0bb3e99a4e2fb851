package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
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
	var l lighthouseFlags
	var job, reason string
	cmd := &cobra.Command{
		Use:   verb + " REPLICA",
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := l.replica(cmd.Context(), job, args[0])
			if err != nil {
				return err
			}
			err = l.call(cmd.Context(), func(ctx context.Context, c skerrypb.LighthouseClient) error {
				return wish(ctx, c, job, id, reason)
			})
			if err != nil {
				return fmt.Errorf("%s %s: %w", verb, id, err)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s %s\n", printable.Line(id), done)
			return err
		},
	}
	l.add(cmd)
	cmd.Flags().StringVar(&job, "job", wire.DefaultJob, "the replica's job")
	cmd.Flags().StringVar(&reason, "reason", "asked for with skerry "+verb, "why; the replica and the history are told")
	return cmd
}

// newJobsCommand lists the jobs.
func newJobsCommand() *cobra.Command {
	var l lighthouseFlags
	cmd := &cobra.Command{
		Use:   "jobs",
		Short: "List the jobs of a lighthouse, and their rules",
		Args:  cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var resp *skerrypb.JobsResponse
			err := l.call(cmd.Context(), func(ctx context.Context, c skerrypb.LighthouseClient) (err error) {
				resp, err = c.Jobs(ctx, &skerrypb.JobsRequest{})
				return err
			})
			if err != nil {
				return err
			}
			return printJobs(cmd.OutOrStdout(), resp.GetJobs())
		},
	}
	l.add(cmd)
	return cmd
}

func printJobs(w io.Writer, jobs []*skerrypb.JobInfo) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "JOB\tCLIENT\tQUORUM\tSTANDS\tMEMBERS\tREPLICAS\tSTEP\tRULES")
	for _, j := range jobs {
		fmt.Fprintf(t, "%s\t%s\t%d\t%t\t%d\t%d\t%d\t%s\n", printable.Line(j.GetJob()), printable.Line(j.GetClient()), j.GetQuorumId(),
			j.GetStands(), j.GetMembers(), j.GetReplicas(), j.GetStep(), rulesText(j.GetRules()))
	}
	return t.Flush()
}

// rulesText is a job's rules in the words of the flags that set them.
func rulesText(r *skerrypb.JobRules) string {
	whose := "server's"
	if r.GetOwn() {
		whose = "own"
	}
	return fmt.Sprintf("%s: min-replicas=%d max-replicas=%d join-timeout=%v heartbeat-timeout=%v suspect-after=%v grace=%v "+
		"stuck-after=%v evict-stuck=%t probation-after=%d", whose, r.GetMinReplicas(), r.GetMaxReplicas(),
		span(r.GetJoinTimeoutMs()), span(r.GetHeartbeatTimeoutMs()), span(r.GetSuspectAfterMs()), span(r.GetGraceMs()),
		span(r.GetStuckAfterMs()), r.GetEvictStuck(), r.GetProbationAfter())
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

// rulesFlags are the rules that a command line may name.
type rulesFlags struct {
	minReplicas, maxReplicas, probationAfter      uint32
	join, heartbeat, suspectAfter, grace, stuckAf time.Duration
	evictStuck, reset                             bool
}

func (r *rulesFlags) add(f *pflag.FlagSet) {
	f.SortFlags = false
	f.Uint32Var(&r.minReplicas, "min-replicas", 0, "smallest quorum")
	f.Uint32Var(&r.maxReplicas, "max-replicas", 0, "largest quorum; 0: the built-in limit")
	f.DurationVar(&r.join, "join-timeout", 0, "how long to wait for live replicas that have not joined")
	f.DurationVar(&r.heartbeat, "heartbeat-timeout", 0, "silence after which a replica is dead")
	f.DurationVar(&r.suspectAfter, "suspect-after", 0, "silence after which a replica is suspect")
	f.DurationVar(&r.grace, "grace", 0, "how long a replica may be suspect by one witness before it is lost")
	f.DurationVar(&r.stuckAf, "stuck-after", 0, "how long a live replica may make no progress; 0: for ever")
	f.BoolVar(&r.evictStuck, "evict-stuck", false, "evict replicas that are stuck")
	f.Uint32Var(&r.probationAfter, "probation-after", 0, "losses in a row, each within a minute of being let in, that put a replica on probation; 0: never")
	f.BoolVar(&r.reset, "reset", false, "take back all that was set for this job, before the rest")
}

// request names what was named; it says whether that is anything.
func (r *rulesFlags) request(job string, f *pflag.FlagSet) (*skerrypb.ConfigureRequest, bool, error) {
	req := &skerrypb.ConfigureRequest{Job: job, Reset_: r.reset}
	any := r.reset
	var problem error
	number := func(name string, v uint32, to **uint32) {
		if f.Changed(name) {
			any, *to = true, &v
		}
	}
	timeout := func(name string, v time.Duration, to **uint32) {
		if !f.Changed(name) {
			return
		}
		if v < 0 || v > wire.MaxTimeout || v%time.Millisecond != 0 {
			problem = fmt.Errorf("--%s = %v, want whole milliseconds up to %v", name, v, wire.MaxTimeout)
			return
		}
		any, *to = true, new(uint32(v.Milliseconds()))
	}
	number("min-replicas", r.minReplicas, &req.MinReplicas)
	number("max-replicas", r.maxReplicas, &req.MaxReplicas)
	number("probation-after", r.probationAfter, &req.ProbationAfter)
	timeout("join-timeout", r.join, &req.JoinTimeoutMs)
	timeout("heartbeat-timeout", r.heartbeat, &req.HeartbeatTimeoutMs)
	timeout("suspect-after", r.suspectAfter, &req.SuspectAfterMs)
	timeout("grace", r.grace, &req.GraceMs)
	timeout("stuck-after", r.stuckAf, &req.StuckAfterMs)
	if f.Changed("evict-stuck") {
		any, req.EvictStuck = true, &r.evictStuck
	}
	return req, any, problem
}

func newJobConfigCommand() *cobra.Command {
	var l lighthouseFlags
	var rules rulesFlags
	cmd := &cobra.Command{
		Use:   "config JOB",
		Short: "Show a job's rules, or change those that are named, while it runs",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			req, named, err := rules.request(args[0], cmd.Flags())
			if err != nil {
				return err
			}
			var now *skerrypb.JobRules
			err = l.call(cmd.Context(), func(ctx context.Context, c skerrypb.LighthouseClient) error {
				if !named {
					now, err = rulesNow(ctx, c, args[0])
					return err
				}
				resp, err := c.Configure(ctx, req)
				now = resp.GetRules()
				return err
			})
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s %s\n", printable.Line(args[0]), rulesText(now))
			return err
		},
	}
	rules.add(cmd.Flags())
	l.add(cmd)
	return cmd
}

func rulesNow(ctx context.Context, c skerrypb.LighthouseClient, job string) (*skerrypb.JobRules, error) {
	resp, err := c.Jobs(ctx, &skerrypb.JobsRequest{})
	for _, j := range resp.GetJobs() {
		if j.GetJob() == job {
			return j.GetRules(), err
		}
	}
	if err == nil {
		err = fmt.Errorf("no job is called %q", job)
	}
	return nil, err
}

func newJobDeleteCommand() *cobra.Command {
	var l lighthouseFlags
	cmd := &cobra.Command{
		Use:   "delete JOB",
		Short: "Forget a job that has no replicas, its history and its rules",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			err := l.call(cmd.Context(), func(ctx context.Context, c skerrypb.LighthouseClient) error {
				_, err := c.DeleteJob(ctx, &skerrypb.DeleteJobRequest{Job: args[0]})
				return err
			})
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "job %s deleted\n", printable.Line(args[0]))
			return err
		},
	}
	l.add(cmd)
	return cmd
}
