package goodput

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
)

// Command is `skerry bench goodput`.
func Command() *cobra.Command {
	c := Default()
	var out cli.Output
	cmd := &cobra.Command{
		Use:   "goodput",
		Short: "Train while replicas are killed, stopped and cut off, and tell what share of the time counted",
		Long: `Start three lighthouse servers and replicas, each a process of its own, whose steps take
--step as a device's would; do a fault to one of them every so often, by a seed; and tell
what share of the time went into steps that were committed:

  goodput   committed steps x a step that nothing disturbs, as the same run has it, over the time;
            1 where that is more, as on a host whose load falls
  compute   committed steps x --step, over the time

  kill       SIGKILL; the replica starts again at once
  stop       SIGSTOP, and SIGCONT after --hold
  partition  no packet to the replica or from it for --hold; takes root on Linux

With --impl torchft its lighthouse, Manager and Gloo take our place, with the Python of
SKERRY_TORCHFT_PYTHON.`,
		Args: cli.Args,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("every-steps") && !cmd.Flags().Changed("every") {
				c.Every = 0
			}
			c.Progress = cmd.ErrOrStderr()
			r, err := Run(cmd.Context(), c)
			if err != nil {
				return err
			}
			return out.Print(cmd.OutOrStdout(), r, r.Write)
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.Impl, "impl", c.Impl, Skerry+" or "+Torchft)
	f.StringVar(&c.Mode, "mode", c.Mode, DDP+", gradients in each step, or "+DiLoCo+", parameters once in ten")
	f.IntVar(&c.Replicas, "replicas", c.Replicas, "number of replicas")
	f.DurationVar(&c.Step, "step", c.Step, "a device's time of a step")
	f.DurationVar(&c.Duration, "duration", c.Duration, "how long, from the first step of all replicas on")
	f.DurationVar(&c.Every, "every", c.Every, "time between two faults; 0: as --every-steps has it")
	f.Int64Var(&c.EverySteps, "every-steps", 0, "steps between two faults, in the place of --every; 0: none")
	f.StringSliceVar(&c.Faults, "faults", c.Faults, "which, of "+strings.Join(Kinds(), ", "))
	f.DurationVar(&c.Hold, "hold", c.Hold, "how long a replica is stopped, or cut off")
	f.Uint64Var(&c.Seed, "seed", c.Seed, "of data, faults and victims")
	f.StringVar(&c.LogDir, "log-dir", "", "existing folder for the log of each process; empty: none")
	out.Add(cmd)
	return cmd
}
