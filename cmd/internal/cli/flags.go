package cli

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
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
	} else if e, ok := errors.AsType[*pflag.InvalidSyntaxError](err); ok {
		err = fmt.Errorf("%q is no flag, want --name value, or --name=value", e.GetSpecifiedFlag())
	}
	return Usage(err)
}

// wanted says what a flag takes, and how a value that is nearly right should be written.
func wanted(f *pflag.Flag, value string) string {
	if c, ok := f.Value.(*Choice); ok {
		return words(c.of)
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
	probe := &cobra.Command{SuggestionsMinimumDistance: near(name)}
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
	text := fieldName.ReplaceAllStringFunc(oncePerField(err.Error()), func(field string) string {
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

// oncePerField leaves the last problem of each field and value: the last to look has the
// narrowest bounds.
func oncePerField(text string) string {
	lines := strings.Split(text, "\n")
	return strings.Join(slices.DeleteFunc(slices.Clone(lines), func(line string) bool {
		what, _, _ := strings.Cut(line, ", want ")
		last := line
		for _, l := range lines {
			if other, _, ok := strings.Cut(l, ", want "); ok && other == what {
				last = l
			}
		}
		return last != line
	}), "\n")
}

// reworded is an error told in other words.
type reworded struct {
	text  string
	cause error
}

func (r reworded) Error() string { return r.text }

func (r reworded) Unwrap() error { return r.cause }

// Need wants flags that have no default: a usage error names those without a value.
func Need(cmd *cobra.Command, names ...string) error {
	var missing []string
	for _, name := range names {
		if f := cmd.Flags().Lookup(name); f.Value.String() == "" || f.Value.String() == "[]" {
			missing = append(missing, fmt.Sprintf("--%s is missing, want %s", name, f.Usage))
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return Usage(errors.New(strings.Join(missing, "; ")))
}

// Address wants the value of a flag to be host:port.
func Address(cmd *cobra.Command, name string) error {
	f := cmd.Flags().Lookup(name)
	_, port, err := net.SplitHostPort(f.Value.String())
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return Usagef("--%s = %q, want host:port, as %s", name, f.Value.String(), f.DefValue)
	}
	return nil
}

// Choice is a flag that takes one of a few words.
type Choice struct {
	value string
	of    []string
}

// NewChoice makes a flag that takes one of those words; the first is its default.
func NewChoice(of ...string) *Choice { return &Choice{value: of[0], of: of} }

// String implements pflag.Value.
func (c *Choice) String() string { return c.value }

// Type implements pflag.Value; help shows it as the value.
func (c *Choice) Type() string { return strings.Join(c.of, "|") }

// Set implements pflag.Value.
func (c *Choice) Set(value string) error {
	if !slices.Contains(c.of, value) {
		return fmt.Errorf("%q, want %s", value, words(c.of))
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
