package cli

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/skerry-ft/skerry/internal/flagerror"
)

// flagError is what is wrong with a flag, told as a usage error.
func flagError(cmd *cobra.Command, err error) error {
	return Usage(flagerror.Of(err, cmd.Flags(), cmd.CommandPath()))
}

// fieldName is a Go field, or a path of them.
var fieldName = regexp.MustCompile(`\b[A-Z][A-Za-z]+(\.[A-Z][A-Za-z]+)*\b`)

// Flagged names flags in an error that names the fields of a configuration, as a usage
// error. A field's flag is spelled as the field, dashes apart; others has those for which
// that is not so, by path or by field. An error that names none is returned as it is.
func Flagged(err error, flags *pflag.FlagSet, others map[string]string) error {
	if err == nil {
		return nil
	}
	said := make(map[string]bool)
	text := fieldName.ReplaceAllStringFunc(oncePerField(err.Error()), func(path string) string {
		field := path[strings.LastIndexByte(path, '.')+1:]
		flag := cmp.Or(others[path], others[field], flagOf(flags, field))
		if flag == "" {
			return path
		}
		said[flag] = true
		return flag
	})
	if len(said) == 0 {
		return err
	}
	for flag := range said { // twice
		text = strings.ReplaceAll(text, " ("+flag+")", "")
	}
	return Usage(reworded{text, err})
}

// flagOf is the flag that is spelled as a field, or "".
func flagOf(flags *pflag.FlagSet, field string) (flag string) {
	flags.VisitAll(func(f *pflag.Flag) {
		if strings.EqualFold(strings.ReplaceAll(f.Name, "-", ""), field) {
			flag = "--" + f.Name
		}
	})
	return flag
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
		return fmt.Errorf("%q, want %s", value, c.Wants())
	}
	c.value = value
	return nil
}

// Wants says which words they are.
func (c *Choice) Wants() string { return words(c.of) }

// words are "a or b", "a, b or c".
func words(of []string) string {
	if len(of) < 2 {
		return strings.Join(of, "")
	}
	return strings.Join(of[:len(of)-1], ", ") + " or " + of[len(of)-1]
}
