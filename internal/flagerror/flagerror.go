// Package flagerror says what is wrong with a flag in words that need no knowledge of Go: the
// flag, the value, what is wanted, and which flag might be meant.
package flagerror

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Of is an error of pflag's about the flags of a command in those words; others are returned
// as they are.
func Of(err error, flags *pflag.FlagSet, command string) error {
	if e, ok := errors.AsType[*pflag.NotExistError](err); ok {
		return unknown(e, flags, command)
	}
	if e, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return fmt.Errorf("--%s has no value, want %s", e.GetFlag().Name, wanted(e.GetFlag(), ""))
	}
	if e, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return fmt.Errorf("--%s = %q, want %s", e.GetFlag().Name, e.GetValue(), wanted(e.GetFlag(), e.GetValue()))
	}
	if e, ok := errors.AsType[*pflag.InvalidSyntaxError](err); ok {
		return fmt.Errorf("%q is no flag, want --name value, or --name=value", e.GetSpecifiedFlag())
	}
	return err
}

// wanted says what a flag takes, and how a value that is nearly right should be written. A
// pflag.Value with a method Wants says it itself.
func wanted(f *pflag.Flag, value string) string {
	if v, ok := f.Value.(interface{ Wants() string }); ok {
		return v.Wants()
	}
	switch f.Value.Type() {
	case "duration":
		example := "500ms, 10s or 5m"
		if _, err := time.ParseDuration(value + "ms"); value != "" && err == nil {
			example = fmt.Sprintf("%sms or %ss", value, value)
		}
		return "a time with its unit, as " + example
	case "int", "int64":
		return "a whole number"
	case "uint", "uint32", "uint64":
		return "a whole number, 0 or more"
	case "bool", "boolfunc":
		return "true or false"
	case "intSlice", "int64Slice":
		return "whole numbers, a,b,c"
	case "float64":
		return "a number"
	}
	return "a value: " + f.Usage
}

// unknown names the flags that might be meant. Suggestions are cobra's, which knows of commands
// alone: so each flag is made one.
func unknown(e *pflag.NotExistError, flags *pflag.FlagSet, command string) error {
	typed, name := "--"+e.GetSpecifiedName(), e.GetSpecifiedName()
	if shorts := e.GetSpecifiedShortnames(); shorts != "" {
		name, _, _ = strings.Cut(shorts, "=")
		typed = "-" + name
	}
	probe := &cobra.Command{SuggestionsMinimumDistance: Near(name)}
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			probe.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
		}
	})
	if meant := probe.SuggestionsFor(name); len(meant) > 0 {
		return fmt.Errorf("unknown flag %s of %s, did you mean --%s?", typed, command, strings.Join(meant, " or --"))
	}
	return fmt.Errorf("unknown flag %s of %s; %s --help lists them", typed, command, command)
}

// Near is by how many letters a name may differ from the one that is meant: of a short one by
// few, for else it is near to all.
func Near(name string) int { return min(max(len(name)/3, 1), 2) }
