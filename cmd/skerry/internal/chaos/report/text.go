package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
	"github.com/skerry-ft/skerry/cmd/skerry/internal/chaos/plan"
	"github.com/skerry-ft/skerry/cmd/skerry/internal/watch"
	"github.com/skerry-ft/skerry/internal/printable"
)

// Write writes the report for people.
func (r Report) Write(w io.Writer) error {
	fmt.Fprintf(w, "job %s, seed %d: %s in %v%s\n", printable.Line(r.Job), r.Seed, cli.Plural(len(r.Faults), "fault"),
		(time.Duration(r.WallMs) * time.Millisecond).Round(time.Second), r.kinds())
	fmt.Fprintf(w, "%s of %s, goodput %.1f %% · %s lost, as the lighthouse counts\n", cli.Plural(r.Steps, "step"), watch.Took(r.StepMs),
		100*r.Goodput, watch.Took(r.LostMs))
	if r.ResumedMs.Max > 0 {
		fmt.Fprintf(w, "fault to the next step: median %s, max %s\n", watch.Took(r.ResumedMs.Median), watch.Took(r.ResumedMs.Max))
	}
	if err := r.table(w); err != nil {
		return err
	}
	for _, s := range r.Skipped {
		fmt.Fprintf(w, "%s no fault %d: %s\n", clock(s.AtMs), s.Number, printable.Line(s.Why))
	}
	_, err := fmt.Fprintln(w, r.verdict())
	return err
}

// kinds are how many faults of each kind there were.
func (r Report) kinds() string {
	var parts []string
	for _, k := range plan.Kinds() {
		n := 0
		for _, f := range r.Faults {
			if f.Kind == string(k) {
				n++
			}
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, k))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// toldBytes is how much of what was told a table shows.
const toldBytes = 100

func (r Report) table(w io.Writer) error {
	if len(r.Faults) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "TIME\tFAULT\tSEEN: STEP\tWHOLE\tTOLD: KNOWN\tFORMED\tRESUMED\tLOST\tWHAT THE LIGHTHOUSE TOLD")
	for _, f := range r.Faults {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t", clock(f.AtMs), printable.Line(f.text), watch.Took(float64(f.ResumedMs)), watch.Took(float64(f.WholeMs)))
		if f.Told == nil {
			fmt.Fprintln(t, "-\t-\t-\t-\tthe quorum stood")
			continue
		}
		text, _, _ := strings.Cut(watch.Called(f.Told.Text, false), " · ")
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", watch.Took(f.Told.KnownMs), watch.Took(f.Told.ReformedMs), watch.Took(f.Told.ResumedMs),
			watch.Took(f.Told.LostMs), printable.Cut(text, toldBytes))
	}
	return t.Flush()
}

// verdict is the last line.
func (r Report) verdict() string {
	var parts []string
	if r.Stalls > 0 {
		parts = append(parts, cli.Plural(r.Stalls, "stall"))
	} else {
		parts = append(parts, "no stall")
	}
	if r.NotWhole > 0 {
		parts = append(parts, fmt.Sprintf("after %s fewer replicas trained than before", cli.Plural(r.NotWhole, "fault")))
	}
	if r.NoEffect > 0 {
		parts = append(parts, cli.Plural(r.NoEffect, "fault")+" had no effect: the victim stayed")
	}
	if r.Unnamed > 0 {
		parts = append(parts, fmt.Sprintf("of %s the lighthouse named another culprit", cli.Plural(r.Unnamed, "fault")))
	}
	open := slices.ContainsFunc(r.Faults, func(f Fault) bool { return f.ResumedMs == 0 })
	if open && r.Stalls+r.NoEffect == 0 {
		parts = append(parts, "the run ended before a step showed that the last fault is over")
	}
	ends := map[string]string{
		EndedDuration: "its time is over", EndedInterrupted: "interrupted", EndedFinished: "the job has finished",
		EndedStall: "ended by the stall", EndedFailed: "the job has gone",
	}
	return strings.Join(append(parts, ends[r.Ended]), " · ")
}

// clock is a time of the day.
func clock(ms int64) string { return time.UnixMilli(ms).Format("15:04:05.000") }
