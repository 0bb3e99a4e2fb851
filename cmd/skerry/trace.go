package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
	"github.com/skerry-ft/skerry/pg/trace"
)

func newTraceCommand() *cobra.Command {
	var out cli.Output
	cmd := &cobra.Command{
		Use:   "trace FILE…",
		Short: "Say from flight-recorder dumps which rank is missing where",
		Long: "Merge the dumps that the flight recorders of several ranks wrote when their group broke\n" +
			"(SKERRY_TRACE_BUFFER_SIZE and SKERRY_TRACE_DUMP_FILE make them), and say which rank is missing\n" +
			"in which collective, where ranks called different ones, and who dumped nothing.",
		Args: cli.Args,
		RunE: func(cmd *cobra.Command, files []string) error {
			return showTraces(&out, files, cmd.OutOrStdout())
		},
	}
	out.Add(cmd)
	return cmd
}

// showTraces prints what can be said, and then returns what could not be read.
func showTraces(out *cli.Output, files []string, w io.Writer) error {
	dumps, unread := trace.ReadFiles(files)
	groups := trace.Analyse(dumps)
	err := out.Print(w, groups, func(w io.Writer) error {
		for i := range groups {
			if err := groups[i].WriteText(w); err != nil {
				return fmt.Errorf("write: %w", err)
			}
		}
		return nil
	})
	if unread != nil {
		unread = fmt.Errorf("%w; want dumps, as SKERRY_TRACE_DUMP_FILE makes them", unread)
	}
	return errors.Join(err, unread)
}
