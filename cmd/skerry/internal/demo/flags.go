package demo

import (
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
	"github.com/skerry-ft/skerry/cmd/internal/guardflags"
	"github.com/skerry-ft/skerry/cmd/skerry/internal/python"
	"github.com/skerry-ft/skerry/internal/netaddr"
	"github.com/skerry-ft/skerry/internal/problems"
	"github.com/skerry-ft/skerry/quorum"
)

// Bounds of the demo's flags.
const (
	maxReplicas = 64
	maxSteps    = 1_000_000
	maxStepTime = time.Minute
)

// config is the demo's flags.
type config struct {
	Replicas    int
	Steps       int64
	KillEvery   int64
	StepTime    time.Duration
	Seed        uint64
	Lighthouses int
	MinReplicas int
	Listen      string
	Backend     string
	Trainer     string
	LogDir      string
	Stay        bool
	Open        bool       // Listen may be one that other hosts reach
	Output      cli.Output // JSON is one object on one line at the end

	// ParityEvery is in how many steps the replicas compare their states; negative: never.
	ParityEvery int
	// SkipAllReduce is the replica that applies its own gradients, -1: none.
	SkipAllReduce int
	// SkipUntil is the last step in which it does so, 0: every one.
	SkipUntil int64
}

// skipsUntil is the last step in which a replica applies its own gradients, 0: none.
func (c config) skipsUntil(index int) int64 {
	switch {
	case index != c.SkipAllReduce:
		return 0
	case c.SkipUntil == 0:
		return c.Steps
	default:
		return c.SkipUntil
	}
}

// Command is `skerry demo`.
func Command() *cobra.Command {
	var c config
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Train a model on real data while replicas are being killed",
		Long: `Start a lighthouse and replicas, each a process of its own, that train a small
neural network on handwritten digits; kill one of them with SIGKILL every so many
steps, start it again at once, and compare all parameters at the end.

Exit status 0 means: all steps were made, and every replica has the same
parameters, bit for bit.`,
		Args: cli.Args,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.validate(); err != nil {
				return err
			}
			if !c.Open {
				var err error
				if c.Open, err = netaddr.OpenFromEnv(); err != nil {
					return err
				}
			}
			if c.Trainer == trainerPython {
				if err := python.Check(cmd.Context(), pythonModule); err != nil {
					return cli.Usagef("--trainer = python, %w", err)
				}
			}
			return run(cmd.Context(), c, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.IntVar(&c.Replicas, "replicas", 4, "number of replicas")
	f.Int64Var(&c.Steps, "steps", 600, "steps to train")
	f.Int64Var(&c.KillEvery, "kill-every", 100, "kill a replica every so many steps; 0: never")
	f.DurationVar(&c.StepTime, "step-time", 50*time.Millisecond, "how long a step takes at least, as if the model were larger")
	f.Uint64Var(&c.Seed, "seed", 1, "of data, model and the choice of victims")
	f.IntVar(&c.Lighthouses, "lighthouses", 1, "number of lighthouse servers: 1, 3 or 5; the leader of several is killed, too")
	f.IntVar(&c.MinReplicas, "min-replicas", 1, "fewest replicas that may train")
	f.StringVar(&c.Listen, "listen", "127.0.0.1:0", "address of the lighthouse and its dashboard; port 0 takes a free one")
	guardflags.AddOpen(f, &c.Open)
	f.StringVar(&c.Backend, "backend", "tcp", "process group backend: tcp, or baby:tcp, which runs it in a child process that is killed, too")
	f.StringVar(&c.Trainer, "trainer", trainerGo, "go, or python: PyTorch by the package skerry, of the python3 in PATH")
	f.StringVar(&c.LogDir, "log-dir", "", "existing folder for every process's log; empty: none")
	f.BoolVar(&c.Stay, "stay", false, "keep the lighthouse and its dashboard at the end, until Ctrl-C")
	c.Output.Add(cmd)
	f.Lookup("output").Usage = "text, or json: nothing but one JSON object at the end on standard output, progress on standard error"
	f.IntVar(&c.SkipAllReduce, "skip-allreduce-replica", -1, "replica that applies its own gradients instead of the average, to see it found out; -1: none")
	f.Int64Var(&c.SkipUntil, "skip-allreduce-until", 0, "last step in which --skip-allreduce-replica does so; 0: every one, and the end may come before the check that finds it")
	f.IntVar(&c.ParityEvery, "parity-every", quorum.DefaultParityEvery, "compare the states of the replicas every so many steps; -1: only at the end")
	return cmd
}

// backends are those that a demo on CPUs can use.
func backends() []string { return []string{"tcp", "baby:tcp"} }

// validate returns all problems, each in one line that names value and bound.
func (c config) validate() error {
	l := problems.List{Prefix: "--"}
	want := l.Want
	want(c.Replicas >= 1 && c.Replicas <= maxReplicas, "replicas", c.Replicas, "1 to %d", maxReplicas)
	want(c.Steps >= 1 && c.Steps <= maxSteps, "steps", c.Steps, "1 to %d", maxSteps)
	want(c.KillEvery >= 0, "kill-every", c.KillEvery, "0 or more")
	want(c.KillEvery == 0 || c.Replicas != 1, "kill-every", c.KillEvery, "0 with --replicas 1: nobody would be left")
	want(c.StepTime >= 0 && c.StepTime <= maxStepTime, "step-time", c.StepTime, "0 to %v", maxStepTime)
	want(slices.Contains([]int{1, 3, 5}, c.Lighthouses), "lighthouses", c.Lighthouses, "1, 3 or 5")
	want(c.MinReplicas >= 1 && c.MinReplicas <= max(c.Replicas, 1), "min-replicas", c.MinReplicas, "1 to --replicas = %d", c.Replicas)
	inPython := c.Trainer == trainerPython
	want(inPython || c.Trainer == trainerGo, "trainer", c.Trainer, "%s or %s", trainerGo, trainerPython)
	want(!inPython || c.Backend == "tcp", "backend", c.Backend, "tcp with --trainer python")
	want(!inPython || c.SkipAllReduce == -1, "skip-allreduce-replica", c.SkipAllReduce, "-1 with --trainer python")
	want(slices.Contains(backends(), c.Backend), "backend", c.Backend, "one of: %s", strings.Join(backends(), ", "))
	want(c.SkipAllReduce >= -1 && c.SkipAllReduce < c.Replicas, "skip-allreduce-replica", c.SkipAllReduce, "-1 to %d", c.Replicas-1)
	want(c.SkipUntil >= 0 && c.SkipUntil <= c.Steps, "skip-allreduce-until", c.SkipUntil, "0 to --steps = %d", c.Steps)
	want(c.ParityEvery == -1 || c.ParityEvery >= 1 && quorum.ValidParityEvery(c.ParityEvery), "parity-every", c.ParityEvery, "a power of two, or -1")
	_, _, err := net.SplitHostPort(c.Listen)
	want(err == nil, "listen", c.Listen, "host:port")
	if c.LogDir != "" {
		info, err := os.Stat(c.LogDir)
		want(err == nil && info.IsDir(), "log-dir", c.LogDir, "an existing folder")
	}
	return oneLine(l.Err())
}

// oneLine puts joined errors on one line, as a usage error.
func oneLine(err error) error {
	if err == nil {
		return nil
	}
	return cli.Usage(errors.New(strings.ReplaceAll(err.Error(), "\n", "; ")))
}
