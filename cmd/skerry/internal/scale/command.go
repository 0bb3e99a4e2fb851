package scale

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
)

// answer is what scale has asked for.
type answer struct {
	Job      string `json:"job"`
	Replicas int    `json:"replicas"`
}

// Command is skerry scale.
func Command() *cobra.Command {
	var out cli.Output
	cmd := &cobra.Command{
		Use:   "scale JOB REPLICAS",
		Short: "Change how many replicas the skerry run of this host has",
		Long: "Change how many replicas a job has that skerry run, of this user, runs on this host. More are started at\n" +
			"once, and heal from the others; of fewer the highest are sent SIGTERM, and drain.",
		Args: cli.Args,
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return Jobs(cmd.Context()), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := strconv.Atoi(args[1])
			if err != nil || n < 1 {
				return cli.Usagef("REPLICAS = %q, want a number of 1 or more", args[1])
			}
			switch err := Call(cmd.Context(), args[0], n); {
			case errors.Is(err, ErrNone):
				there := "there is none of another job either"
				if jobs := Jobs(cmd.Context()); len(jobs) > 0 {
					there = "there are: " + strings.Join(jobs, ", ")
				}
				return cli.WithStatus(cli.StatusNotFound, fmt.Errorf("job %q: %w; %s", args[0], err, there))
			case err != nil:
				return fmt.Errorf("scale %s: %w", args[0], err)
			}
			return out.Print(cmd.OutOrStdout(), answer{args[0], n}, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "%s: %s wanted\n", args[0], cli.Plural(n, "replica"))
				return err
			})
		},
	}
	out.Add(cmd)
	return cmd
}
