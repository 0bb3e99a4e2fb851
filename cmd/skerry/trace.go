package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/skerry-ft/skerry/internal/printable"
	"github.com/skerry-ft/skerry/pg/trace"
)

// traceConfig is the flags of trace.
type traceConfig struct {
	JSON bool
}

func newTraceCommand() *cobra.Command {
	var c traceConfig
	cmd := &cobra.Command{
		Use:   "trace FILE...",
		Short: "Say from flight-recorder dumps which rank is missing where",
		Long: "Merge the dumps that the flight recorders of several ranks wrote when their group broke\n" +
			"(SKERRY_TRACE_BUFFER_SIZE and SKERRY_TRACE_DUMP_FILE make them), and say which rank is missing\n" +
			"in which collective, where ranks called different ones, and who dumped nothing.",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error {
			return showTraces(c, files, cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&c.JSON, "json", false, "print JSON")
	return cmd
}

// showTraces prints what can be said, and then returns what could not be read.
func showTraces(c traceConfig, files []string, w io.Writer) error {
	dumps, unread := trace.ReadFiles(files)
	groups := trace.Analyse(dumps)
	if c.JSON {
		enc := json.NewEncoder(printable.JSONWriter(w))
		enc.SetIndent("", "  ")
		return errors.Join(enc.Encode(groups), unread)
	}
	for i := range groups {
		if err := groups[i].WriteText(w); err != nil {
			return fmt.Errorf("write: %w", err)
		}
	}
	return unread
}
