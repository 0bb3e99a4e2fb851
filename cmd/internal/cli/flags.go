package cli

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagError says what is wrong with a flag in words that need no knowledge of Go: the
// flag, the value, what is wanted, and which flag might be meant.
func flagError(cmd *cobra.Command, err error) error {
	if e, ok := errors.AsType[*pflag.NotExistError](err); ok {
		err = unknownFlag(cmd, e)
	} else if e, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		err = fmt.Errorf("--%s has no value, want %s", e.GetFlag().Name, wanted(e.GetFlag(), ""))
	} else if e, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		err = fmt.Errorf("--%s = %q, want %s", e.GetFlag().Name, e.GetValue(), wanted(e.GetFlag(), e.GetValue()))
		if cause := errors.Unwrap(e); e.GetFlag().Value.Type() == choiceType {
			err = cause
		}
	} else if e, ok := errors.AsType[*pflag.InvalidSyntaxError](err); ok {
		err = fmt.Errorf("%q is no flag, want --name value, or --name=value", e.GetSpecifiedFlag())
	}
	return Usage(err)
}

// wanted says what a flag takes, and how a value that is nearly right should be written.
func wanted(f *pflag.Flag, value string) string {
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
	case "bool":
		return "true or false"
	case "intSlice", "int64Slice":
		return "whole numbers, a,b,c"
	case "float64":
		return "a number"
	}
	return "a value: " + f.Usage
}

// unknownFlag names the flags that might be meant.
func unknownFlag(cmd *cobra.Command, e *pflag.NotExistError) error {
	typed, name := "--"+e.GetSpecifiedName(), e.GetSpecifiedName()
	if shorts := e.GetSpecifiedShortnames(); shorts != "" {
		name, _, _ = strings.Cut(shorts, "=")
		typed = "-" + name
	}
	text := fmt.Sprintf("unknown flag %s of %s", typed, cmd.CommandPath())
	if meant := flagsLike(cmd.Flags(), name); len(meant) > 0 {
		return fmt.Errorf("%s, did you mean %s?", text, strings.Join(meant, " or "))
	}
	return fmt.Errorf("%s; %s --help lists them", text, cmd.CommandPath())
}

// flagsLike are flags whose names are near to one. A command's suggestions are cobra's,
// which knows of commands alone: so each name is made one.
func flagsLike(flags *pflag.FlagSet, name string) []string {
	probe := &cobra.Command{SuggestionsMinimumDistance: suggestWithin}
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			probe.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
		}
	})
	var meant []string
	for _, m := range probe.SuggestionsFor(name) {
		meant = append(meant, "--"+m)
	}
	return meant
}

// fieldName is a Go field, or a path of them.
var fieldName = regexp.MustCompile(`\b[A-Z][A-Za-z]+(\.[A-Z][A-Za-z]+)*\b`)

// Flagged names flags in an error that names the fields of a configuration, as a usage
// error: those that flags knows, by field.
func Flagged(err error, flags map[string]string) error {
	if err == nil {
		return nil
	}
	text := fieldName.ReplaceAllStringFunc(err.Error(), func(field string) string {
		if flag, ok := flags[field]; ok {
			return flag
		}
		return field
	})
	for _, flag := range flags { // said twice
		text = strings.ReplaceAll(text, " ("+flag+")", "")
	}
	return Usage(reworded{text, err})
}

// reworded is an error told in other words.
type reworded struct {
	text  string
	cause error
}

func (r reworded) Error() string { return r.text }

func (r reworded) Unwrap() error { return r.cause }

// Choice is a flag that takes one of a few words.
type Choice struct {
	name, value string
	of          []string
}

const choiceType = "choice"

// NewChoice makes a flag that takes one of those words; the first is its default.
func NewChoice(name string, of ...string) *Choice { return &Choice{name: name, value: of[0], of: of} }

// String implements pflag.Value.
func (c *Choice) String() string { return c.value }

// Type implements pflag.Value.
func (c *Choice) Type() string { return choiceType }

// Set implements pflag.Value.
func (c *Choice) Set(value string) error {
	if !slices.Contains(c.of, value) {
		return fmt.Errorf("--%s = %q, want %s", c.name, value, words(c.of))
	}
	c.value = value
	return nil
}

// words are "a or b", "a, b or c".
func words(of []string) string {
	if len(of) < 2 {
		return strings.Join(of, "")
	}
	return strings.Join(of[:len(of)-1], ", ") + " or " + of[len(of)-1]
}
