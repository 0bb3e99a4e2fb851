package chaos

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
	"github.com/skerry-ft/skerry/cmd/internal/connect"
	"github.com/skerry-ft/skerry/cmd/skerry/internal/chaos/plan"
	"github.com/skerry-ft/skerry/internal/problems"
	"github.com/skerry-ft/skerry/internal/wire"
)

// Bounds of the flags.
const (
	minEvery    = time.Second
	maxDuration = 30 * 24 * time.Hour
	maxHold     = 10 * time.Minute
)

// unasked are the faults of a user who names none, as far as they can be done.
var unasked = []plan.Kind{plan.Kill, plan.Stop, plan.Link}

// config is the flags.
type config struct {
	connect.Flags

	job        string
	every      time.Duration
	duration   time.Duration
	faults     []string
	seed       uint64
	hold       time.Duration
	stallAfter time.Duration
	belowMin   bool
	overlap    bool
	dryRun     bool
	diskPath   string
	diskMiB    int64
	svg        string
	out        cli.Output

	named   bool // the user says which faults
	drawing bool // and where the drawing goes
}

// Command is `skerry chaos`.
func Command() *cobra.Command {
	var c config
	cmd := &cobra.Command{
		Use:   "chaos",
		Short: "Break a job that runs, again and again, and report how it gets over it",
		Long: `Break a job that runs: kill its replicas, stop them for a while, cut links between them, and report how long it took
until the job committed a step again, what the lighthouse told of it, and what it cost.

Faults that need a replica's process hit those on this host, in this network namespace, with this user's rights; kill
goes through the lighthouse where the process is elsewhere. What starts a replica again is yours: a launcher, systemd,
Kubernetes. No fault leaves fewer replicas than min_replicas, unless --below-min, and none comes before the job is back
from the one before, unless --overlap. Ctrl-C ends what is under way, and reports.

  kill        SIGKILL to a replica's process
  stop        SIGSTOP to it, for less than it may be silent or for longer; then SIGCONT
  rank        SIGKILL to a process of a replica above rank 0
  link        the data connection between two replicas is cut
  disk        --disk-path is full for --hold
  lighthouse  another server leads, by a transfer, or by SIGKILL to the leading one where it is on this host and a
              majority is there without it

Exit status 1: the job committed no step for --stall-after, or is gone.`,
		Args: cli.Args,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.named, c.drawing = cmd.Flags().Changed("faults"), cmd.Flags().Changed("svg")
			if err := c.validate(); err != nil {
				return err
			}
			return run(cmd.Context(), &c, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	c.AddJob(cmd, &c.job, wire.DefaultJob, "the job to break")
	f.DurationVar(&c.every, "every", 30*time.Second, "time between two faults")
	f.DurationVar(&c.duration, "duration", 10*time.Minute, "how long faults come; the last one is waited for")
	f.StringSliceVar(&c.faults, "faults", words(unasked), "which, of "+strings.Join(words(plan.Kinds()), ", "))
	f.Uint64Var(&c.seed, "seed", 1, "of times, faults and victims")
	f.DurationVar(&c.hold, "hold", 10*time.Second, "how long a disk is full, and the longest stop")
	f.DurationVar(&c.stallAfter, "stall-after", time.Minute, "how long the job may commit no step; that ends the run")
	f.BoolVar(&c.belowMin, "below-min", false, "leave fewer replicas than min_replicas, but never none")
	f.BoolVar(&c.overlap, "overlap", false, "do not wait until the job is back from a fault")
	f.BoolVar(&c.dryRun, "dry-run", false, "say what would be done, and do nothing")
	f.StringVar(&c.diskPath, "disk-path", "", "folder to fill, for --faults disk")
	f.Int64Var(&c.diskMiB, "disk-mib", 0, "fill it with so many MiB; 0: until nothing more fits")
	f.StringVar(&c.svg, "svg", "skerry-chaos.svg", "file for the drawing of the run; empty: none")
	c.Add(cmd)
	c.out.Add(cmd)
	return cmd
}

func words(kinds []plan.Kind) (all []string) {
	for _, k := range kinds {
		all = append(all, string(k))
	}
	return all
}

// validate returns all problems, each naming value and bound, in one line.
func (c *config) validate() error {
	l := problems.List{Prefix: "--"}
	want := l.Want
	want(c.job != "", "job", c.job, "a job's name")
	want(c.every >= minEvery, "every", c.every, "%v or more", minEvery)
	want(c.duration >= c.every && c.duration <= maxDuration, "duration", c.duration, "--every = %v to %v", c.every, maxDuration)
	want(c.hold > 0 && c.hold <= maxHold, "hold", c.hold, "above 0, at most %v", maxHold)
	want(c.stallAfter >= time.Second && c.stallAfter <= maxDuration, "stall-after", c.stallAfter, "%v to %v", time.Second, maxDuration)
	want(c.diskMiB >= 0, "disk-mib", c.diskMiB, "0 or more")
	want(len(c.faults) > 0, "faults", "", "one or more of %s", strings.Join(words(plan.Kinds()), ", "))
	for _, k := range c.faults {
		want(slices.Contains(plan.Kinds(), plan.Kind(k)), "faults", k, "one or more of %s", strings.Join(words(plan.Kinds()), ", "))
	}
	disk := slices.Contains(c.faults, string(plan.Disk))
	want(disk || c.diskPath == "", "disk-path", c.diskPath, "none without --faults disk")
	if disk {
		c.validateDisk(&l)
	}
	err := l.Err()
	if err == nil {
		return nil
	}
	return cli.Usage(errors.New(strings.ReplaceAll(err.Error(), "\n", "; ")))
}

// validateDisk wants a folder, and spares the file system that the host lives on.
func (c *config) validateDisk(l *problems.List) {
	info, err := os.Stat(c.diskPath)
	if err != nil || !info.IsDir() {
		l.Want(false, "disk-path", c.diskPath, "an existing folder for --faults disk")
		return
	}
	if c.diskMiB > 0 {
		return
	}
	l.Want(!onRoot(info), "disk-path", c.diskPath, "a file system other than that of /, which this host needs, or a bound by --disk-mib")
	shared := pool(c.diskPath)
	l.Want(shared == "", "disk-path", c.diskPath, "no %s, which shares its room with more than this folder, or a bound by --disk-mib", shared)
}

// plan is what is wanted of package plan; kinds are those that can be done.
func (c *config) plan(kinds []plan.Kind) plan.Plan {
	return plan.Plan{Seed: c.seed, Kinds: kinds, Every: c.every, Hold: c.hold, BelowMin: c.belowMin}
}

// kinds are the faults that are asked for, in their order, once each.
func (c *config) kinds() (all []plan.Kind) {
	for _, k := range plan.Kinds() {
		if slices.Contains(c.faults, string(k)) {
			all = append(all, k)
		}
	}
	return all
}

// reason is what replicas and the history are told of a fault.
func (c *config) reason() string {
	return fmt.Sprintf("skerry chaos --seed %d", c.seed)
}
