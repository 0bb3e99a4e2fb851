package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/skerry-ft/skerry/internal/flagerror"
	"github.com/skerry-ft/skerry/internal/printable"
)

// The exit statuses of all commands.
const (
	StatusFailed      = 1
	StatusUsage       = 2   // the command line cannot be right
	StatusNoLeader    = 3   // no lighthouse server answers, or none of them leads
	StatusNotFound    = 4   // the replica, job or server that is named is not there
	StatusInterrupted = 130 // 128 + SIGINT, as shells say it
)

// exitError is an error that ends the command with a status of its own.
type exitError struct {
	error

	status int
}

func (e exitError) Unwrap() error { return e.error }

// WithStatus is err, nil if it is, with the exit status that it ends a command with.
func WithStatus(status int, err error) error {
	if err == nil {
		return nil
	}
	return exitError{err, status}
}

// Usage is err as that of a command line that cannot be right.
func Usage(err error) error { return WithStatus(StatusUsage, err) }

// Usagef is Usage of an error of a format.
func Usagef(format string, args ...any) error { return Usage(fmt.Errorf(format, args...)) }

// StatusOf is the exit status of a command that ended with err.
func StatusOf(err error) int {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[exitError](err); ok {
		return e.status
	}
	return StatusFailed
}

// HasStatus tells whether err has an exit status that the command chose.
func HasStatus(err error) bool {
	_, ok := errors.AsType[exitError](err)
	return ok
}

// Strict makes a root command, whose other commands have been added, answer what it does not know with
// one line, a suggestion if there is one, and StatusUsage: unknown commands, also of help, unknown
// flags, and arguments that a command does not take.
func Strict(root *cobra.Command) {
	root.SilenceUsage, root.SilenceErrors = true, true
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(newCompletion(root))
	root.SetUsageFunc(usage)
	// Execute has looked for what is no command; behind "--" nothing is.
	root.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknown(cmd, args[0])
		}
		return nil
	}
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommand(helpCommand(root))
	root.InitDefaultHelpCmd()
	root.InitDefaultHelpFlag() // so that find knows that these have no value
	root.InitDefaultVersionFlag()
	usageArgs(root)
}

// Execute runs the command that args name of a root that is Strict.
func Execute(ctx context.Context, root *cobra.Command, args []string) error {
	// What shells ask for completions is no command until cobra runs.
	asks := len(args) > 0 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd)
	if err := find(root, args); err != nil && !asks {
		return err
	}
	root.SetArgs(args)
	return root.ExecuteContext(ctx)
}

// Say writes an error that ends a program, as one line.
func Say(w io.Writer, program string, err error) {
	fmt.Fprintf(w, "%s: %s\n", program, printable.Line(Plain(err.Error())))
}

// find is the usage error of args that name a command that there is not, or nil.
func find(root *cobra.Command, args []string) error {
	check := root.Args
	root.Args = nil // cobra's own check, which knows commands from the values of flags
	cmd, rest, err := root.Find(args)
	root.Args = check
	if err == nil {
		return nil
	}
	i := slices.IndexFunc(rest, func(s string) bool { return strings.HasPrefix(err.Error(), fmt.Sprintf("unknown command %q", s)) })
	if i < 0 {
		return Usage(err)
	}
	return unknown(cmd, rest[i])
}

func helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about any command",
		RunE: func(_ *cobra.Command, args []string) error {
			if err := find(root, args); err != nil {
				return err
			}
			cmd, rest, _ := root.Find(args) // as above
			if len(rest) > 0 {
				return unknown(cmd, rest[0])
			}
			return cmd.Help()
		},
	}
}

// unknown says that cmd has no command of a name, and which might be meant.
func unknown(cmd *cobra.Command, name string) error {
	text := fmt.Sprintf("unknown command %q for %q", name, cmd.CommandPath())
	cmd.SuggestionsMinimumDistance = flagerror.Near(name)
	if meant := cmd.SuggestionsFor(name); len(meant) > 0 {
		text += ", did you mean " + strings.Join(meant, " or ") + "?"
	} else {
		text += "; " + cmd.CommandPath() + " --help lists the commands"
	}
	return Usage(errors.New(text))
}

// usageArgs makes a usage error of each argument that a command does not take.
func usageArgs(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error { return Usage(check(cmd, args)) }
	}
	if !cmd.Runnable() { // but for its commands
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknown(cmd, args[0])
			}
			return cmd.Help()
		}
	}
	for _, c := range cmd.Commands() {
		usageArgs(c)
	}
}
