package main

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
)

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Tell which build this is",
		Args:  cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			fmt.Fprintln(cmd.OutOrStdout(), version())
			return nil
		},
	}
}

// version describes this build.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "skerry, built without build information"
	}
	return describeBuild(info)
}

// describeBuild is one line: version, revision, toolchain.
func describeBuild(info *debug.BuildInfo) string {
	line := "skerry " + info.Main.Version
	settings := make(map[string]string, len(info.Settings))
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if rev := settings["vcs.revision"]; rev != "" {
		line += " revision " + rev
		if settings["vcs.modified"] == "true" {
			line += " with changes"
		}
	}
	return fmt.Sprintf("%s %s %s/%s", line, info.GoVersion, settings["GOOS"], settings["GOARCH"])
}
