package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/skerry-ft/skerry/cmd/internal/buildinfo"
	"github.com/skerry-ft/skerry/cmd/internal/cli"
)

func newVersionCommand() *cobra.Command {
	var out cli.Output
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Tell which build this is: version, commit and Go",
		Args:  cli.Args,
		RunE: func(cmd *cobra.Command, _ []string) error {
			build := buildinfo.Read()
			return out.Print(cmd.OutOrStdout(), build, func(w io.Writer) error {
				_, err := fmt.Fprintln(w, build.Text("skerry"))
				return err
			})
		},
	}
	out.Add(cmd)
	return cmd
}
