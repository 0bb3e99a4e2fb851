package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// Row is one line of a result: what one implementation took for one set of
// parameters. Median and P99 are in Unit. Params (n, bytes, …) stand beside
// the other fields in JSON.
type Row struct {
	Bench   string
	Impl    string // "skerry", or a peer's name
	Unit    string
	Samples int
	Median  float64
	P99     float64
	Params  Params

	samples []float64 // in the order in which they were taken
}

// Params are a row's parameters by name.
type Params map[string]any

// MarshalJSON gives one flat object.
func (r Row) MarshalJSON() ([]byte, error) {
	flat := make(map[string]any, len(r.Params)+6)
	maps.Copy(flat, r.Params)
	flat["bench"], flat["impl"], flat["unit"] = r.Bench, r.Impl, r.Unit
	flat["samples"], flat["median"], flat["p99"] = r.Samples, r.Median, r.P99
	return json.Marshal(flat)
}

func (p Params) String() string {
	parts := make([]string, 0, len(p))
	for _, name := range slices.Sorted(maps.Keys(p)) {
		value := p[name]
		if v, ok := value.(float64); ok {
			value = figure(v)
		}
		parts = append(parts, fmt.Sprintf("%s=%v", name, value))
	}
	return strings.Join(parts, " ")
}

// Printer writes rows as they come: as JSON, one object a line, or as a table
// when Flush is called.
type Printer struct {
	json   *json.Encoder
	tab    *tabwriter.Writer
	headed bool
	err    error // of the first row that could not be written
}

// NewPrinter returns a Printer to w.
func NewPrinter(w io.Writer, asJSON bool) *Printer {
	if asJSON {
		return &Printer{json: json.NewEncoder(w)}
	}
	return &Printer{tab: tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)}
}

// Print writes rows. Flush returns the error, if there is one.
func (p *Printer) Print(rows ...Row) {
	for _, r := range rows {
		if p.err == nil {
			p.err = p.print(r)
		}
	}
}

func (p *Printer) print(r Row) error {
	if p.json != nil {
		return p.json.Encode(r)
	}
	if !p.headed { // without a row there is nothing to head
		p.headed = true
		fmt.Fprintln(p.tab, "bench\timpl\tparameters\tsamples\tmedian\tp99\tunit")
	}
	_, err := fmt.Fprintf(p.tab, "%s\t%s\t%v\t%d\t%s\t%s\t%s\n",
		r.Bench, r.Impl, r.Params, r.Samples, figure(r.Median), figure(r.P99), r.Unit)
	return err
}

// Flush ends the table, and returns the first error of a row or that of the table.
func (p *Printer) Flush() error {
	if p.err == nil && p.tab != nil {
		p.err = p.tab.Flush()
	}
	return p.err
}

// figure prints three significant digits.
func figure(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.3g", v)
	}
}
