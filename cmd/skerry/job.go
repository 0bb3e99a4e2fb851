package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
	"github.com/skerry-ft/skerry/cmd/internal/connect"
	"github.com/skerry-ft/skerry/internal/printable"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
)

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
			problem = cli.Usagef("--%s = %v, want whole milliseconds up to %v", name, v, wire.MaxTimeout)
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
	var l connect.Flags
	var out cli.Output
	var rules rulesFlags
	cmd := &cobra.Command{
		Use:               "config JOB",
		Short:             "Show a job's rules, or change those that are named, while it runs",
		Args:              cli.Args,
		ValidArgsFunction: l.CompleteJobs,
		RunE: func(cmd *cobra.Command, args []string) error {
			req, named, err := rules.request(args[0], cmd.Flags())
			if err != nil {
				return err
			}
			var now *skerrypb.JobRules
			err = l.Call(cmd.Context(), func(ctx context.Context, c skerrypb.LighthouseClient) error {
				if !named {
					now, err = rulesNow(ctx, c, args[0])
					return err
				}
				resp, err := c.Configure(ctx, req)
				now = resp.GetRules()
				return err
			})
			if err != nil {
				return cli.Flagged(err, cmd.Flags(), nil)
			}
			answer := struct {
				Job   string      `json:"job"`
				Rules rulesAnswer `json:"rules"`
			}{args[0], rulesOf(now)}
			return out.Print(cmd.OutOrStdout(), answer, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "%s %s\n", printable.Line(args[0]), answer.Rules)
				return err
			})
		},
	}
	rules.add(cmd.Flags())
	l.Add(cmd)
	out.Add(cmd)
	return cmd
}

func rulesNow(ctx context.Context, c skerrypb.LighthouseClient, job string) (*skerrypb.JobRules, error) {
	resp, err := c.Jobs(ctx, &skerrypb.JobsRequest{})
	if err != nil {
		return nil, err
	}
	var there []string
	for _, j := range resp.GetJobs() {
		if j.GetJob() == job {
			return j.GetRules(), nil
		}
		there = append(there, j.GetJob())
	}
	return nil, connect.NoJob(job, there)
}

func newJobDeleteCommand() *cobra.Command {
	var l connect.Flags
	var out cli.Output
	cmd := &cobra.Command{
		Use:               "delete JOB",
		Short:             "Forget a job that has no replicas, its history and its rules",
		Args:              cli.Args,
		ValidArgsFunction: l.CompleteJobs,
		RunE: func(cmd *cobra.Command, args []string) error {
			err := l.Call(cmd.Context(), func(ctx context.Context, c skerrypb.LighthouseClient) error {
				_, err := c.DeleteJob(ctx, &skerrypb.DeleteJobRequest{Job: args[0]})
				return err
			})
			if err != nil {
				return err
			}
			return out.Print(cmd.OutOrStdout(), map[string]string{"job": args[0], "done": "deleted"}, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "job %s deleted\n", printable.Line(args[0]))
				return err
			})
		},
	}
	l.Add(cmd)
	out.Add(cmd)
	return cmd
}
