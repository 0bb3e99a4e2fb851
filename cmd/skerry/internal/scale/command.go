package scale

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
	"github.com/skerry-ft/skerry/cmd/internal/connect"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
)

// maxReplicas is more than any job has.
const maxReplicas = 1_000_000

// answer is what scale has asked for.
type answer struct {
	Job      string `json:"job"`
	Replicas int    `json:"replicas"`
}

// Command is skerry scale.
func Command() *cobra.Command {
	var l connect.Flags
	var out cli.Output
	var reason string
	cmd := &cobra.Command{
		Use:   "scale JOB REPLICAS",
		Short: "Change how many replicas a job of skerry run has",
		Long: "Change how many replicas a job has, on all hosts together, whose launchers are skerry run. More are started at\n" +
			"once, and heal from the others; of fewer the highest are sent SIGTERM, and drain.\n\n" +
			"The lighthouse keeps the number until the run has finished, and tells it to all launchers. Where none is named, or\n" +
			"it does not know the job, or refuses the order for want of its token, the skerry run of this user on this\n" +
			"host is told, which passes it on to its own.\n" +
			"0 takes the number back: all replicas stay, and the next run begins with its own --replicas.",
		Args: cli.Args,
		ValidArgsFunction: func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			if at, err := l.Given(); err == nil && len(at) > 0 {
				return l.CompleteJobs(cmd, args, begun)
			}
			return Jobs(cmd.Context()), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := strconv.Atoi(args[1])
			if err != nil || n < 0 || n > maxReplicas {
				return cli.Usagef("REPLICAS = %q, want a number of 1 to %d, or 0 to take the number back", args[1], maxReplicas)
			}
			if err := tell(cmd.Context(), &l, args[0], n, reason); err != nil {
				return err
			}
			return out.Print(cmd.OutOrStdout(), answer{args[0], n}, func(w io.Writer) error {
				if n == 0 {
					_, err := fmt.Fprintf(w, "%s: no number of replicas wanted any more\n", args[0])
					return err
				}
				_, err := fmt.Fprintf(w, "%s: %s wanted\n", args[0], cli.Plural(n, "replica"))
				return err
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "asked for with skerry scale", "why; the history is told, by a lighthouse that is named")
	l.AddOptional(cmd, "the launcher of this host is told")
	out.Add(cmd)
	return cmd
}

// tell tells the lighthouse that is named, and else the launcher of this host. A lighthouse that
// does not know the job, or no such order, may not be the launcher's own; one that wants a token
// which this command does not have may take the launcher's.
func tell(ctx context.Context, l *connect.Flags, job string, replicas int, reason string) error {
	at, err := l.Given()
	if err != nil {
		return err
	}
	var refused error
	if len(at) > 0 {
		refused = Order(ctx, l, job, replicas, reason)
		if refused == nil {
			return nil
		}
		if !errors.Is(refused, errOld) && !errors.Is(refused, errRight) && cli.StatusOf(refused) != cli.StatusNotFound {
			return fmt.Errorf("scale %s: %w", job, refused)
		}
	}
	switch err := Call(ctx, job, replicas); {
	case errors.Is(err, ErrNone) && refused != nil:
		return fmt.Errorf("scale %s: %w; and %w", job, refused, err)
	case errors.Is(err, ErrNone):
		there := "there is none of another job either"
		if jobs := Jobs(ctx); len(jobs) > 0 {
			there = "there are: " + strings.Join(jobs, ", ")
		}
		return cli.WithStatus(cli.StatusNotFound, fmt.Errorf("job %q: %w; %s; or name its lighthouse by --lighthouse", job, err, there))
	case err != nil:
		return fmt.Errorf("scale %s: %w", job, err)
	}
	return nil
}

// errOld marks the answer of a lighthouse of before November 2026, which takes no such order.
var errOld = errors.New("the lighthouse is too old to keep how many replicas are wanted")

// errRight marks the answer of a lighthouse that takes no order of who asks.
var errRight = errors.New("this command may not")

// Order tells a lighthouse how many replicas are wanted of a job. Errors: why it refuses; that it
// cannot be reached.
func Order(ctx context.Context, l *connect.Flags, job string, replicas int, reason string) error {
	old, right := false, false
	err := l.Call(ctx, func(ctx context.Context, c skerrypb.LighthouseClient) error {
		_, err := c.Scale(ctx, &skerrypb.ScaleRequest{Job: job, Replicas: uint32(replicas), Reason: reason})
		code := status.Code(err)
		old, right = code == codes.Unimplemented, code == codes.PermissionDenied || code == codes.Unauthenticated
		return err
	})
	switch {
	case err != nil && old:
		return errOld
	case err != nil && right:
		return fmt.Errorf("%w: %w", errRight, err)
	}
	return err
}
