package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// Args takes the arguments that a command's Use names, in capitals: "drain REPLICA",
// "why [REPLICA]", "trace FILE…". What is missing is called by that name.
func Args(cmd *cobra.Command, args []string) error {
	named := argNames(cmd.Use)
	for i, name := range named {
		if i >= len(args) && !strings.HasPrefix(name, "[") {
			return fmt.Errorf("%s is missing, want: %s", plainName(name), usageLine(cmd))
		}
	}
	if most := len(named); len(args) > most && (most == 0 || !repeats(named[most-1])) {
		if most == 0 && cmd.HasAvailableSubCommands() {
			return unknown(cmd, args[0])
		}
		if most == 0 {
			return fmt.Errorf("unexpected argument %q, want flags only", args[0])
		}
		return fmt.Errorf("unexpected argument %q, want: %s", args[most], usageLine(cmd))
	}
	return nil
}

// argNames are the arguments in a command's Use, without flags and their values.
func argNames(use string) []string {
	fields := strings.Fields(use)[1:]
	var names []string
	for i, f := range fields {
		ofFlag := i > 0 && strings.HasPrefix(fields[i-1], "--")
		if !strings.HasPrefix(f, "--") && !ofFlag {
			names = append(names, f)
		}
	}
	return names
}

func repeats(name string) bool {
	return strings.HasSuffix(strings.TrimSuffix(name, "]"), "…")
}

func plainName(name string) string { return strings.TrimSuffix(name, "…") }

// usageLine is how a command is called.
func usageLine(cmd *cobra.Command) string {
	words := strings.Fields(cmd.Use)
	return strings.Join(slices.Concat([]string{cmd.CommandPath()}, words[1:]), " ")
}
