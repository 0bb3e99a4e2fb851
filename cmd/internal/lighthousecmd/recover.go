package lighthousecmd

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
	"github.com/skerry-ft/skerry/internal/logline"
	"github.com/skerry-ft/skerry/internal/printable"
	"github.com/skerry-ft/skerry/lighthouse/cluster"
)

func newRecoverCommand() *cobra.Command {
	var dir, aside string
	var sure bool
	var out cli.Output
	cmd := &cobra.Command{
		Use:   "recover --data-dir DIR --majority-is-lost",
		Short: "Go on with one server's data when the majority of the voters is lost for good",
		Long: `Go on with one server's data when the majority of the voters is lost for good.

Training goes on without any lighthouse as long as its members stay healthy, so
there is time. If enough servers can be brought back with their data, do that
instead: nothing is lost then.

 1. Stop all servers that are left, and see to it that none of the lost ones comes
    back with its old data.
 2. Pick the server with the longest log: the highest last_index that this command
    shows with -o json, tried on copies of the data dirs, or the highest LOG of the
    last "lighthouse members".
 3. Run this command on its data dir. It becomes the only voter, under a new raft
    id; the cluster id and all jobs stay.
 4. Start it with --bootstrap-expect 1 --voters 3, and the others, new or left,
    with EMPTY data dirs and --join to it. They become voters by themselves.

What the lost majority had committed, and this server had not heard, is gone. The
members of each job bring their last quorum along when they connect, so that ids
go on rising.`,
		Args: cli.Args,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.Need(cmd, "data-dir"); err != nil {
				return err
			}
			if !sure {
				return cli.Usage(errors.New("this forgets the other voters: say --majority-is-lost if it is so"))
			}
			log := logline.JSON(cmd.ErrOrStderr()).Level(zerolog.WarnLevel)
			r, err := cluster.Recover(dir, aside, log)
			if err != nil {
				return err
			}
			return out.Print(cmd.OutOrStdout(), r, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "cluster %s goes on with server %s (was %s), log to %d, jobs: %s\n",
					printable.Line(r.Cluster), printable.Line(r.RaftID), printable.Line(r.OldRaftID), r.LastIndex,
					printable.Line(strings.Join(r.Jobs, ", ")))
				return err
			})
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&dir, "data-dir", "", "data dir of the server to go on with; it must not run")
	f.StringVar(&aside, "from", "", "folder in it, old-…, with data that were set aside, to be put back first")
	f.BoolVar(&sure, "majority-is-lost", false, "yes, it is")
	out.Add(cmd)
	return cmd
}
