package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
	"github.com/skerry-ft/skerry/cmd/internal/connect"
	"github.com/skerry-ft/skerry/cmd/skerry/internal/watch"
	"github.com/skerry-ft/skerry/internal/printable"
	"github.com/skerry-ft/skerry/lighthouse/api"
)

// newHistoryCommand tells what each change of a quorum was, and what it cost.
func newHistoryCommand() *cobra.Command {
	var l connect.Flags
	var out cli.Output
	var job string
	var last int
	var wide bool
	cmd := &cobra.Command{
		Use:   "history",
		Short: "Tell each change of the quorum: the culprit, the cause, and what it cost",
		Long: `Tell each change of a job's quorum, oldest first. Times are from the first sign of a fault: KNOWN, until the quorum fell;
FORMED, until the next one was there; RESUMED, until the first step was committed in it. LOST is how much of that was no
step.`,
		Args: cli.Args,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if last < 0 {
				return cli.Usagef("--last = %d, want 0, for all, or more", last)
			}
			events, err := l.Events(cmd.Context(), job, 0)
			if err != nil {
				return err
			}
			changes := changesOf(events)
			if last > 0 {
				changes = changes[max(len(changes)-last, 0):]
			}
			return out.Print(cmd.OutOrStdout(), changes, func(w io.Writer) error { return printHistory(w, changes, job == "", wide) })
		},
	}
	l.AddJob(cmd, &job, "", "only this job")
	cmd.Flags().IntVarP(&last, "last", "n", shownEvents, "only so many, the newest; 0: all that are known")
	cmd.Flags().BoolVar(&wide, "wide", false, "call replicas by their ids, and not by their names")
	l.Add(cmd)
	out.Add(cmd)
	return cmd
}

// changesOf are the quorums that were formed, each with what its first step told of its
// cost.
func changesOf(events []api.Event) []api.Event {
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

func printHistory(w io.Writer, changes []api.Event, jobs, wide bool) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	head := "TIME\tMEMBERS\tKNOWN\tFORMED\tRESUMED\tLOST\tWHAT"
	if jobs {
		head = "TIME\tJOB\tMEMBERS\tKNOWN\tFORMED\tRESUMED\tLOST\tWHAT"
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
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", members(e), took(cost.KnownMs), took(cost.ReformedMs), took(cost.ResumedMs),
			took(cost.LostMs), what(e, wide))
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

// took is a time that is known.
func took(ms float64) string { return watch.Took(ms) }

// what is a change without what it cost, which has columns of its own, and what became of
// the step that was under way.
func what(e api.Event, wide bool) string {
	text, _, _ := strings.Cut(watch.Told(e, wide), " · ")
	if e.Cost == nil || e.Cost.Step == 0 {
		return text
	}
	switch e.Cost.Outcome {
	case "discard":
		text += fmt.Sprintf(" · step %d done anew", e.Cost.Step)
	case "forward":
		text += fmt.Sprintf(" · step %d counts", e.Cost.Step)
	}
	return text
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
		text += fmt.Sprintf(" · training again after %s (median), %s at most · %s lost · %s done anew", took(resumed[(len(resumed)-1)/2]),
			took(resumed[len(resumed)-1]), took(lost), cli.Plural(again, "step"))
	}
	return text
}
