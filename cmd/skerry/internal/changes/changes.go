// Package changes makes of what a lighthouse tells a table of how quorums changed: the
// culprit, the cause, and what it cost. It starts no goroutines.
package changes

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
	"github.com/skerry-ft/skerry/cmd/skerry/internal/watch"
	"github.com/skerry-ft/skerry/internal/printable"
	"github.com/skerry-ft/skerry/lighthouse/api"
)

// Of are the quorums that were formed, each with what its first step told of its
// cost.
func Of(events []api.Event) []api.Event {
	changes := []api.Event{}
	type quorum struct {
		job string
		id  int64
	}
	at := make(map[quorum]int)
	for _, e := range events {
		key := quorum{e.Job, e.QuorumID}
		switch i, formed := at[key]; {
		case e.Kind == "formed":
			at[key] = len(changes)
			changes = append(changes, e)
		case e.Kind == "resumed" && formed && e.Cost != nil:
			changes[i].Cost = merged(changes[i].Cost, *e.Cost)
		}
	}
	return changes
}

// merged is what is known of a cost when its quorum was formed, and later.
func merged(early *api.Cost, late api.Cost) *api.Cost {
	if early == nil {
		return &late
	}
	c := *early
	for _, f := range []struct{ to, from *float64 }{
		{&c.KnownMs, &late.KnownMs}, {&c.ReformedMs, &late.ReformedMs}, {&c.ResumedMs, &late.ResumedMs}, {&c.LostMs, &late.LostMs},
	} {
		if *f.from > 0 {
			*f.to = *f.from
		}
	}
	if late.Outcome != "" {
		c.Step, c.Outcome = late.Step, late.Outcome
	}
	return &c
}

// Write writes a table of changes, and what all of them cost.
func Write(w io.Writer, changes []api.Event, jobs, wide bool) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	head := "TIME\tQUORUM\tMEMBERS\tKNOWN\tFORMED\tRESUMED\tLOST\tWHAT"
	if jobs {
		head = "TIME\tJOB\tQUORUM\tMEMBERS\tKNOWN\tFORMED\tRESUMED\tLOST\tWHAT"
	}
	fmt.Fprintln(t, head)
	for _, e := range changes {
		var cost api.Cost
		if e.Cost != nil {
			cost = *e.Cost
		}
		fmt.Fprintf(t, "%s\t", time.UnixMilli(e.AtMs).Format("15:04:05.000"))
		if jobs {
			fmt.Fprintf(t, "%s\t", printable.Line(e.Job))
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", called(e, wide), members(e), watch.Took(cost.KnownMs), watch.Took(cost.ReformedMs), watch.Took(cost.ResumedMs),
			watch.Took(cost.LostMs), what(e, wide))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, summary(changes))
	return err
}

// members is how many there were, and are.
func members(e api.Event) string {
	if e.Before == 0 || e.Before == e.Members {
		return fmt.Sprint(e.Members)
	}
	return fmt.Sprintf("%d→%d", e.Before, e.Members)
}

// what is a change without what it cost, which has columns of its own. A lighthouse of an older
// version tells the whole sentence alone.
func what(e api.Event, wide bool) string {
	return watch.Called(cmp.Or(e.What, e.Text), wide)
}

// called is a quorum as it is called: by its number among the job's, where that is known.
func called(e api.Event, wide bool) string {
	if e.Ordinal > 0 && !wide {
		return fmt.Sprintf("#%d", e.Ordinal)
	}
	return fmt.Sprint(e.QuorumID)
}

// summary is what all changes cost.
func summary(changes []api.Event) string {
	var lost float64
	var resumed []float64
	again := 0
	for _, e := range changes {
		if e.Cost == nil {
			continue
		}
		lost += e.Cost.LostMs
		if e.Cost.ResumedMs > 0 {
			resumed = append(resumed, e.Cost.ResumedMs)
		}
		if e.Cost.Outcome == "discard" {
			again++
		}
	}
	text := cli.Plural(len(changes), "change")
	if len(resumed) > 0 {
		slices.Sort(resumed)
		text += fmt.Sprintf(" · training again after %s (median), %s at most · %s lost · %s done anew", watch.Took(resumed[(len(resumed)-1)/2]),
			watch.Took(resumed[len(resumed)-1]), watch.Took(lost), cli.Plural(again, "step"))
	}
	return text
}
