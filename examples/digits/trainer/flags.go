package main

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// statusUsage is the exit status of a command line that cannot be right, as skerry's is.
const statusUsage = 2

// usageError is what is wrong with a command line.
type usageError struct{ error }

// Unwrap returns the cause.
func (e usageError) Unwrap() error { return e.error }

// dashed are the arguments with two dashes before a flag's name: one will do, as package
// flag has it, for no flag is called by one letter.
func dashed(args []string) []string {
	all := make([]string, len(args))
	for i, a := range args {
		if len(a) > 2 && a[0] == '-' && unicode.IsLetter(rune(a[1])) {
			a = "-" + a
		}
		all[i] = a
		if a == "--" {
			copy(all[i:], args[i:])
			break
		}
	}
	return all
}

// flagError says what is wrong with a flag in words that need no knowledge of Go: the flag,
// the value, what is wanted, and which flag might be meant.
func flagError(f *pflag.FlagSet, err error) error {
	if e, ok := errors.AsType[*pflag.NotExistError](err); ok {
		return unknownFlag(f, e.GetSpecifiedName())
	}
	if e, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return fmt.Errorf("--%s has no value, want %s", e.GetFlag().Name, wanted(e.GetFlag()))
	}
	if e, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return fmt.Errorf("--%s = %q, want %s", e.GetFlag().Name, e.GetValue(), wanted(e.GetFlag()))
	}
	return err
}

// wanted says what a flag takes.
func wanted(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "duration":
		return fmt.Sprintf("a time with its unit, as %v or %v", 500*time.Millisecond, 10*time.Second)
	case "int", "int64":
		return "a whole number"
	case "uint64":
		return "a whole number, 0 or more"
	case "bool", "boolfunc":
		return "true or false"
	}
	return "a value: " + f.Usage
}

// unknownFlag names the flags that might be meant. cobra suggests commands alone: so each
// flag is made one.
func unknownFlag(f *pflag.FlagSet, name string) error {
	probe := &cobra.Command{SuggestionsMinimumDistance: min(max(len(name)/3, 1), 2)}
	f.VisitAll(func(f *pflag.Flag) {
		probe.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
	})
	var meant []string
	for _, m := range probe.SuggestionsFor(name) {
		meant = append(meant, "--"+m)
	}
	if len(meant) == 0 {
		return fmt.Errorf("unknown flag --%s of trainer; trainer --help lists them", name)
	}
	return fmt.Errorf("unknown flag --%s of trainer, did you mean %s?", name, strings.Join(meant, " or "))
}
