package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
	"github.com/skerry-ft/skerry/cmd/internal/connect"
	"github.com/skerry-ft/skerry/cmd/skerry/internal/watch"
	"github.com/skerry-ft/skerry/internal/printable"
	"github.com/skerry-ft/skerry/lighthouse/api"
)

// shownEvents is how many events are shown unless it is said.
const shownEvents = 20

// eventsConfig is the flags of events, and what it prints to.
type eventsConfig struct {
	connect.Flags

	job, replica string
	since        int64
	last         int
	follow, wide bool
	out          cli.Output
}

// newEventsCommand tells what happened, and happens.
func newEventsCommand() *cobra.Command {
	var c eventsConfig
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Tell what happened to jobs and replicas, and with --follow what happens",
		Long: `Tell what happened, a line an event, oldest first: who died or left, of what, who saw it, what it cost, and what operators
asked for. The lighthouse keeps the newest thousand of a job, over its leaders. With --follow it goes on until Ctrl-C, over
the death of servers. JSON is one object a line.`,
		Args: cli.Args,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case c.last < 0:
				return cli.Usagef("--last = %d, want 0, for all, or more", c.last)
			case c.since < 0:
				return cli.Usagef("--since = %d, want the number of an event, 0 or more", c.since)
			case c.since > 0 && c.job == "":
				return cli.Usagef("--since = %d without --job, want --job, too: each job has numbers of its own", c.since)
			}
			return c.run(cmd)
		},
	}
	f := cmd.Flags()
	c.AddJob(cmd, &c.job, "", "only this job")
	f.StringVar(&c.replica, "replica", "", "only this replica: its id, the beginning of it, or its name")
	_ = cmd.RegisterFlagCompletionFunc("replica", c.CompleteReplicas(&c.job)) // it fails for flags that are not there
	f.Int64Var(&c.since, "since", 0, "only what came after the event of this number; with --job")
	f.IntVarP(&c.last, "last", "n", shownEvents, "only so many of those that there are, the newest; 0: all")
	f.BoolVar(&c.wide, "wide", false, "call replicas by their ids, and not by their names")
	f.BoolVarP(&c.follow, "follow", "f", false, "go on with what comes")
	c.Add(cmd)
	c.out.Add(cmd)
	return cmd
}

func (c *eventsConfig) run(cmd *cobra.Command) error {
	w := cmd.OutOrStdout()
	there, err := c.Events(cmd.Context(), c.job, c.since)
	if err != nil {
		return err
	}
	shown := slices.DeleteFunc(slices.Clone(there), func(e api.Event) bool { return !c.wants(e) })
	if c.last > 0 {
		shown = shown[max(len(shown)-c.last, 0):]
	}
	for _, e := range shown {
		if err := c.print(w, e); err != nil {
			return err
		}
	}
	if !c.follow {
		return nil
	}
	return c.Follow(cmd.Context(), c.job, there, func(e api.Event) error {
		if !c.wants(e) {
			return nil
		}
		return c.print(w, e)
	}, func(trouble string) {
		cli.Say(cmd.ErrOrStderr(), "skerry", fmt.Errorf("%s", cmp.Or(trouble, "the lighthouse answers again")))
	})
}

// wants tells whether an event is of the replica that is meant.
func (c *eventsConfig) wants(e api.Event) bool {
	if c.replica == "" || connect.Means(c.replica, e.Replica) {
		return true
	}
	named := e.Cause != nil && connect.Means(c.replica, e.Cause.Replica)
	gone := slices.ContainsFunc(e.Gone, func(g api.Cause) bool { return connect.Means(c.replica, g.Replica) })
	return named || gone || slices.ContainsFunc(e.Joined, func(id string) bool { return connect.Means(c.replica, id) })
}

func (c *eventsConfig) print(w io.Writer, e api.Event) error {
	if c.out.JSON() {
		return json.NewEncoder(printable.JSONWriter(w)).Encode(e)
	}
	job := ""
	if c.job == "" {
		job = printable.Line(e.Job) + " "
	}
	_, err := fmt.Fprintf(w, "%s %s#%d %s\n", stamp(e.AtMs), job, e.Seq, watch.Told(e, c.wide))
	return err
}

// stamp is a time as events show it.
func stamp(ms int64) string { return time.UnixMilli(ms).Format("2006-01-02 15:04:05.000") }
