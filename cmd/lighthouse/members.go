package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/skerry-ft/skerry/cmd/internal/guardflags"
	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/printable"
	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/lighthouse/cluster"
)

// shownIDBytes is how much of a raft id a table shows; as much names a server.
const shownIDBytes = 8

// clientFlags are those of the commands that speak to a cluster.
type clientFlags struct {
	servers []string
	timeout time.Duration
	json    bool
	guard   guard.Options
}

func (c *clientFlags) add(f *pflag.FlagSet) {
	f.SortFlags = false
	f.StringSliceVar(&c.servers, "server", []string{fmt.Sprintf("127.0.0.1:%d", lighthouse.DefaultPort)},
		"RPC addresses of servers, host:port,…; the first that answers will do")
	f.DurationVar(&c.timeout, "timeout", 15*time.Second, "how long to wait for an answer")
	f.BoolVar(&c.json, "json", false, "print JSON")
	guardflags.Add(f, &c.guard)
}

// run calls f with a client, within the timeout.
func (c *clientFlags) run(ctx context.Context, f func(context.Context, *cluster.Client) error) error {
	if c.timeout <= 0 {
		return fmt.Errorf("timeout = %v, want above 0", c.timeout)
	}
	g, err := guardflags.Open(&c.guard)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	return f(ctx, &cluster.Client{Addrs: c.servers, Guard: g})
}

// newClusterCommands are those by which operators look after servers.
func newClusterCommands() []*cobra.Command {
	return []*cobra.Command{newMembersCommand(), newLeaveCommand(), newRemoveCommand(), newTransferCommand(), newRecoverCommand()}
}

func newMembersCommand() *cobra.Command {
	var c clientFlags
	cmd := &cobra.Command{
		Use:   "members",
		Short: "Show the servers of the cluster",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.run(cmd.Context(), func(ctx context.Context, client *cluster.Client) error {
				m, err := client.Members(ctx)
				if err != nil {
					return err
				}
				return showMembers(cmd.OutOrStdout(), m, c.json)
			})
		},
	}
	c.add(cmd.Flags())
	return cmd
}

func showMembers(w io.Writer, m cluster.Membership, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(printable.JSONWriter(w))
		e.SetIndent("", "  ")
		return e.Encode(m)
	}
	fmt.Fprintf(w, "cluster %s, term %d, log to %d, %d voters wanted\n", printable.Line(m.Cluster), m.Term, m.LastIndex, m.VotersWanted)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tADDRESS\tRAFT\tROLE\tSTATE\tLOG\tVERSION")
	for _, s := range m.Members {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%d\t%s\n", printable.Line(s.RaftID[:min(shownIDBytes, len(s.RaftID))]),
			printable.Line(s.Addr), printable.Line(s.RaftAddr),
			role(s), state(s), s.LastIndex, printable.Line(s.Version))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if m.Next == "" {
		return nil
	}
	_, err := fmt.Fprintf(w, "next: %s\n", printable.Line(m.Next))
	return err
}

func role(s cluster.Member) string {
	switch {
	case s.Leader:
		return "leader"
	case s.Voter:
		return "voter"
	case s.NonVoter:
		return "forwards"
	case s.InRaft:
		return "spare"
	}
	return "new"
}

func state(s cluster.Member) string {
	if s.Alive {
		return "alive"
	}
	return "away"
}

func newLeaveCommand() *cobra.Command {
	var c clientFlags
	var force bool
	cmd := &cobra.Command{
		Use:   "leave [ADDRESS]",
		Short: "Take a server out of the cluster for good; without ADDRESS, the one at --server",
		Long: `Take a server out of the cluster for good, named by its RPC address. It ends, and
its data dir is of no use to it any more: to join again it needs an empty one. To
stop a server for a while, stop its process: that takes nobody out.

A voter does not go while another voter is away, because then the next death would
cost the majority. If there are spares, one takes its place.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			who := c.servers[:min(1, len(c.servers))]
			if len(args) > 0 {
				who = args
			}
			if len(who) == 0 {
				return fmt.Errorf("no server is named")
			}
			return remove(cmd, &c, who[0], force)
		},
	}
	c.add(cmd.Flags())
	cmd.Flags().BoolVar(&force, "force", false, "even while other voters are away")
	return cmd
}

func newRemoveCommand() *cobra.Command {
	var c clientFlags
	var force bool
	cmd := &cobra.Command{
		Use:   "remove ID",
		Short: "Take a server that will not be back out of the cluster, by its id or address",
		Args:  cobra.ExactArgs(1),
		RunE:  func(cmd *cobra.Command, args []string) error { return remove(cmd, &c, args[0], force) },
	}
	c.add(cmd.Flags())
	cmd.Flags().BoolVar(&force, "force", false, "even while other voters are away")
	return cmd
}

func remove(cmd *cobra.Command, c *clientFlags, who string, force bool) error {
	return c.run(cmd.Context(), func(ctx context.Context, client *cluster.Client) error {
		if err := client.Remove(ctx, who, force); err != nil {
			return err
		}
		return done(cmd.OutOrStdout(), c.json, "removed", who)
	})
}

func newTransferCommand() *cobra.Command {
	var c clientFlags
	cmd := &cobra.Command{
		Use:   "transfer-leader [ID]",
		Short: "Hand the leadership to a server, by its id or address; without one, to whichever is furthest",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			to := ""
			if len(args) > 0 {
				to = args[0]
			}
			return c.run(cmd.Context(), func(ctx context.Context, client *cluster.Client) error {
				if err := client.TransferLeader(ctx, to); err != nil {
					return err
				}
				m, err := client.Members(ctx) // waits for the next leader
				if err != nil {
					return err
				}
				for _, s := range m.Members {
					if s.Leader {
						return done(cmd.OutOrStdout(), c.json, "leader", s.Addr)
					}
				}
				return nil
			})
		},
	}
	c.add(cmd.Flags())
	return cmd
}

// done says what was done.
func done(w io.Writer, asJSON bool, what, who string) error {
	if asJSON {
		return json.NewEncoder(printable.JSONWriter(w)).Encode(map[string]string{what: who})
	}
	_, err := fmt.Fprintf(w, "%s: %s\n", what, printable.Line(who))
	return err
}
