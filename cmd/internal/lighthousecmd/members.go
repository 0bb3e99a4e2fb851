package lighthousecmd

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
	"github.com/skerry-ft/skerry/cmd/internal/connect"
	"github.com/skerry-ft/skerry/internal/printable"
	"github.com/skerry-ft/skerry/lighthouse/cluster"
)

// shownIDBytes is how much of a raft id a table shows; as much names a server.
const shownIDBytes = 8

// clientFlags are those of the commands that speak to a cluster.
type clientFlags struct {
	connect.Flags

	out cli.Output
}

func (c *clientFlags) add(cmd *cobra.Command) {
	cmd.Flags().SortFlags = false
	c.AddCluster(cmd)
	c.out.Add(cmd)
}

// NewMembers is the command that shows the servers.
func NewMembers() *cobra.Command {
	var c clientFlags
	var wide bool
	cmd := &cobra.Command{
		Use:   "members",
		Short: "Show the servers of the lighthouse: who leads, votes, is away or behind",
		Args:  cli.Args,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.Cluster(cmd.Context(), func(ctx context.Context, client *cluster.Client) error {
				m, err := client.Members(ctx)
				if err != nil {
					return err
				}
				return c.out.Print(cmd.OutOrStdout(), m, func(w io.Writer) error { return showMembers(w, m, wide) })
			})
		},
	}
	cmd.Flags().BoolVar(&wide, "wide", false, "show ids whole")
	c.add(cmd)
	return cmd
}

func showMembers(w io.Writer, m cluster.Membership, wide bool) error {
	fmt.Fprintf(w, "cluster %s, term %d, log to %d, %d voters wanted\n", printable.Line(m.Cluster), m.Term, m.LastIndex, m.VotersWanted)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tADDRESS\tRAFT\tROLE\tSTATE\tLOG\tVERSION")
	for _, s := range m.Members {
		id := s.RaftID
		if !wide {
			id = id[:min(shownIDBytes, len(id))]
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%d\t%s\n", printable.Line(id),
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
		Short: "Take a server out of the cluster for good; without ADDRESS, the first of --lighthouse",
		Long: `Take a server out of the cluster for good, named by its RPC address. It ends, and
its data dir is of no use to it any more: to join again it needs an empty one. To
stop a server for a while, stop its process: that takes nobody out.

A voter does not go while another voter is away, because then the next death would
cost the majority. If there are spares, one takes its place.`,
		Args: cli.Args,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return remove(cmd, &c, args[0], force)
			}
			first, err := c.First()
			if err != nil {
				return err
			}
			return remove(cmd, &c, first, force)
		},
	}
	c.add(cmd)
	cmd.Flags().BoolVar(&force, "force", false, "even while other voters are away")
	return cmd
}

func newRemoveCommand() *cobra.Command {
	var c clientFlags
	var force bool
	cmd := &cobra.Command{
		Use:   "remove ID",
		Short: "Take a server that will not be back out of the cluster, by its id or address",
		Args:  cli.Args,
		RunE:  func(cmd *cobra.Command, args []string) error { return remove(cmd, &c, args[0], force) },
	}
	c.add(cmd)
	cmd.Flags().BoolVar(&force, "force", false, "even while other voters are away")
	return cmd
}

func remove(cmd *cobra.Command, c *clientFlags, who string, force bool) error {
	return c.Cluster(cmd.Context(), func(ctx context.Context, client *cluster.Client) error {
		if err := client.Remove(ctx, who, force); err != nil {
			return err
		}
		return done(cmd.OutOrStdout(), &c.out, "removed", who)
	})
}

func newTransferCommand() *cobra.Command {
	var c clientFlags
	var reason string
	cmd := &cobra.Command{
		Use:   "transfer-leader [ID]",
		Short: "Hand the leadership to a server, by its id or address; without one, to whichever is furthest",
		Args:  cli.Args,
		RunE: func(cmd *cobra.Command, args []string) error {
			to := ""
			if len(args) > 0 {
				to = args[0]
			}
			return c.Cluster(cmd.Context(), func(ctx context.Context, client *cluster.Client) error {
				if err := client.TransferLeader(ctx, to, reason); err != nil {
					return err
				}
				m, err := client.Members(ctx) // waits for the next leader
				if err != nil {
					return err
				}
				for _, s := range m.Members {
					if s.Leader {
						return done(cmd.OutOrStdout(), &c.out, "leader", s.Addr)
					}
				}
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the events of the jobs")
	c.add(cmd)
	return cmd
}

// done says what was done.
func done(w io.Writer, out *cli.Output, what, who string) error {
	return out.Print(w, map[string]string{what: who}, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "%s: %s\n", what, printable.Line(who))
		return err
	})
}
