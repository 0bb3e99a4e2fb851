package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/skerry-ft/skerry/internal/printable"
)

// Output is how a command tells what it has to tell: as text for people, or as JSON,
// whose names are in snake_case and whose times are milliseconds, ending in _ms.
type Output struct {
	format *Choice
	json   bool // the flag --json, as it was called once
}

// Add gives a command the flag.
func (o *Output) Add(cmd *cobra.Command) {
	o.format = NewChoice("text", "json")
	f := cmd.Flags()
	f.VarP(o.format, "output", "o", "how to print it")
	f.BoolVar(&o.json, "json", false, "the same as --output json")
	f.Lookup("json").Hidden = true
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(o.format.of, cobra.ShellCompDirectiveNoFileComp)) // it fails for flags that are not there
}

// JSON tells whether JSON is wanted.
func (o *Output) JSON() bool { return o.json || o.format != nil && o.format.value == "json" }

// Print writes v as JSON, or what text writes.
func (o *Output) Print(w io.Writer, v any, text func(w io.Writer) error) error {
	if !o.JSON() {
		return text(w)
	}
	e := json.NewEncoder(printable.JSONWriter(w))
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// PrintJSON writes JSON that there is, or what text writes.
func (o *Output) PrintJSON(w io.Writer, body []byte, text func(w io.Writer) error) error {
	if !o.JSON() {
		return text(w)
	}
	_, err := fmt.Fprintf(w, "%s\n", printable.JSON(bytes.TrimSpace(body)))
	return err
}
