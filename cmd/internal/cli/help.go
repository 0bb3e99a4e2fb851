package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// groupKey is the annotation that says under which heading help shows a flag.
const groupKey = "skerry-group"

// Connection is the heading of flags that say who is spoken to, and by what right.
const Connection = "Connection flags"

// Group has help show flags, those that add adds, under a heading of their own.
func Group(f *pflag.FlagSet, heading string, add func(*pflag.FlagSet)) {
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	own.SortFlags = false
	add(own)
	own.VisitAll(func(flag *pflag.Flag) {
		if flag.Annotations == nil {
			flag.Annotations = map[string][]string{}
		}
		flag.Annotations[groupKey] = []string{heading}
	})
	f.AddFlagSet(own)
}

// usage writes how a command is called, its commands and its flags, heading by heading.
func usage(cmd *cobra.Command) error {
	var b strings.Builder
	line := cmd.UseLine()
	if !cmd.Runnable() || cmd.HasAvailableSubCommands() && !cmd.HasAvailableLocalFlags() {
		line = cmd.CommandPath() + " COMMAND"
	}
	fmt.Fprintf(&b, "Usage:\n  %s\n", line)
	if cmd.Example != "" {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", cmd.Example)
	}
	if cmd.HasAvailableSubCommands() {
		b.WriteString("\nCommands:\n")
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() || c.Name() == "help" {
				fmt.Fprintf(&b, "  %-*s %s\n", c.NamePadding(), c.Name(), c.Short)
			}
		}
	}
	for _, heading := range headings(cmd.LocalFlags()) {
		of := pflag.NewFlagSet("", pflag.ContinueOnError)
		of.SortFlags = cmd.Flags().SortFlags
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if groupOf(f) == heading {
				of.AddFlag(f)
			}
		})
		if of.HasAvailableFlags() {
			fmt.Fprintf(&b, "\n%s:\n%s", heading, of.FlagUsages())
		}
	}
	_, err := fmt.Fprint(cmd.OutOrStderr(), b.String())
	return err
}

// headings are those of flags; a command's own flags come first.
func headings(flags *pflag.FlagSet) []string {
	all := []string{groupOf(nil)}
	flags.VisitAll(func(f *pflag.Flag) {
		if g := groupOf(f); !slices.Contains(all, g) {
			all = append(all, g)
		}
	})
	return all
}

func groupOf(f *pflag.Flag) string {
	if f != nil && len(f.Annotations[groupKey]) > 0 {
		return f.Annotations[groupKey][0]
	}
	return "Flags"
}
