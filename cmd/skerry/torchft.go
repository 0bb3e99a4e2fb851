package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
	"github.com/skerry-ft/skerry/cmd/internal/connect"
	"github.com/skerry-ft/skerry/cmd/internal/guardflags"
	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/logline"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/manager/torchft"
)

// errKilled ends the manager of a replica that an operator killed.
var errKilled = errors.New("killed by an operator")

// newTorchftManagerCommand serves torchft's ranks, in place of the manager that
// torchft would start in its rank 0.
func newTorchftManagerCommand() *cobra.Command {
	var cfg torchft.Config
	var guarded guard.Options
	var ends ends
	cmd := &cobra.Command{
		Use:   "torchft-manager",
		Short: "Serve the ranks of a replica that runs torchft",
		Long: `Serve torchft's ManagerService for the ranks of one replica, in place of torchft's own manager: this one
knows several lighthouse servers, and speaks to them over TLS and with the token, which torchft's cannot.
torchft's ranks know neither: what they say to this manager is in the clear, so let it listen on loopback, or
on a network of your own.

torchft always starts a manager of its own in group rank 0. The file that "skerry torchft-manager shim" prints,
skerry_torchft.py, has it start this program instead:

  skerry torchft-manager shim > skerry_torchft.py
  SKERRY_LIGHTHOUSE=server1:29510,server2:29510 python -m skerry_torchft train.py

A program that starts it by itself reads its address from the first line of standard output. It beats for the
replica while a rank is connected, and not for ranks that have died.`,
		Args: cli.Args,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithCancelCause(cmd.Context())
			defer cancel(nil)
			if err := needLighthouse(cmd, "replica-id", "store"); err != nil {
				return err
			}
			var err error
			if cfg.Lighthouse, cfg.Dial, err = reach(cfg.Lighthouse, &cfg.Job, &guarded); err != nil {
				return err
			}
			cfg.Open = guarded.Open
			cfg.OnKill = func(reason string) { cancel(fmt.Errorf("%w: %s", errKilled, reason)) }
			cfg.Log = logline.JSON(cmd.ErrOrStderr())
			s, err := torchft.New(cfg)
			if err != nil {
				return cli.Flagged(err, cmd.Flags(), map[string]string{"StoreAddress": "--store"})
			}
			ctx, stop := ends.watch(ctx, cmd.InOrStdin(), cfg.Log)
			defer stop()
			fmt.Fprintln(cmd.OutOrStdout(), s.Address())
			return s.Run(ctx)
		},
	}
	cmd.AddCommand(newTorchftShimCommand())
	f := cmd.Flags()
	guardflags.Add(f, &guarded)
	guardflags.AddOpen(f, &guarded.Open)
	f.StringVar(&cfg.ReplicaID, "replica-id", "", "the replica's id, name:uuid, new at each start")
	f.StringVar(&cfg.Job, "job", "", "the job; empty: the default one, or what the id begins with")
	f.StringSliceVar(&cfg.Lighthouse, "lighthouse", nil, "addresses of lighthouse servers, host:port,… ("+connect.EnvLighthouse+")")
	f.StringVar(&cfg.StoreAddress, "store", "", "the replica's own store, host:port")
	f.IntVar(&cfg.GroupWorldSize, "group-world-size", 1, "ranks of the replica")
	f.StringVar(&cfg.Listen, "listen", torchft.DefaultListen, "address for the ranks, host:port")
	f.StringVar(&cfg.Advertise, "advertise", "", "host that peers dial; empty: that of --listen")
	f.DurationVar(&cfg.BeatInterval, "beat-interval", torchft.DefaultBeatInterval, "how often the lighthouse hears of the replica while a rank is connected")
	ends.add(f)
	return cmd
}

// needLighthouse wants flags, and lighthouse servers, which have no default here: the
// address where one listens is the proxy's own.
func needLighthouse(cmd *cobra.Command, names ...string) error {
	if os.Getenv(connect.EnvLighthouse) == "" {
		names = append(names, "lighthouse")
	}
	return cli.Need(cmd, names...)
}

// newTorchftShimCommand prints the shim.
func newTorchftShimCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "shim",
		Short: "Print skerry_torchft.py, which has a job of torchft's start this manager",
		Args:  cli.Args,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(torchft.Shim)
			return err
		},
	}
}

// reach says how lighthouse servers are reached: those that flags or the
// environment name, with this process's certificate and token. It completes guarded,
// and job by that of a join token.
func reach(named []string, job *string, guarded *guard.Options) ([]string, []grpc.DialOption, error) {
	if all := os.Getenv(connect.EnvLighthouse); len(named) == 0 && all != "" {
		named = strings.Split(all, ",")
	}
	g, err := guardflags.Open(guarded)
	if err != nil {
		return nil, nil, err
	}
	if *job == "" {
		*job = g.Token.Job()
	}
	settled := *job
	if err := g.Token.Require(func(of string) error {
		if of == "" || of == settled {
			return nil
		}
		return fmt.Errorf("--job = %q, and the join token is of job %q: want the token that skerry token --job %s prints, or that job", settled, of, settled)
	}); err != nil {
		return nil, nil, err
	}
	return named, append(wire.DialOptions(), g.DialOptions(guard.Party{Role: guard.Lighthouse}, "")...), nil
}
