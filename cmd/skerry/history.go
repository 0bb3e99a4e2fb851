package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
	"github.com/skerry-ft/skerry/cmd/internal/connect"
	"github.com/skerry-ft/skerry/cmd/skerry/internal/changes"
)

// newHistoryCommand tells what each change of a quorum was, and what it cost.
func newHistoryCommand() *cobra.Command {
	var l connect.Flags
	var out cli.Output
	var job string
	var last int
	var wide bool
	cmd := &cobra.Command{
		Use:   "history",
		Short: "Tell each change of the quorum: the culprit, the cause, and what it cost",
		Long: `Tell each change of a job's quorum, oldest first. Times are from the first sign of a fault: KNOWN, until the quorum fell;
FORMED, until the next one was there; RESUMED, until the first step was committed in it. LOST is how much of that was no
step.`,
		Args: cli.Args,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if last < 0 {
				return cli.Usagef("--last = %d, want 0, for all, or more", last)
			}
			events, err := l.Events(cmd.Context(), job)
			if err != nil {
				return err
			}
			all := changes.Of(events)
			if last > 0 {
				all = all[max(len(all)-last, 0):]
			}
			return out.Print(cmd.OutOrStdout(), all, func(w io.Writer) error { return changes.Write(w, all, job == "", wide) })
		},
	}
	l.AddJob(cmd, &job, "", "only this job")
	cmd.Flags().IntVarP(&last, "last", "n", shownEvents, "only so many, the newest; 0: all that are known")
	cmd.Flags().BoolVar(&wide, "wide", false, "call replicas by their ids, and not by their names")
	l.Add(cmd)
	out.Add(cmd)
	return cmd
}
