package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/skerry-ft/skerry/cmd/internal/guardflags"
	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/printable"
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
	cmd := &cobra.Command{
		Use:   "torchft-manager",
		Short: "Serve the ranks of a replica that runs torchft",
		Long: `Serve torchft's ManagerService for the ranks of one replica, in place of torchft's own manager: this one
knows several lighthouse servers, and speaks to them over TLS and with the token, which torchft's cannot.
torchft's ranks know neither: what they say to this manager is in the clear, so let it listen on loopback, or
on a network of your own. Its address is the first line of standard output; put it into the replica's store
under manager_addr, and the replica's id under replica_id, before the ranks start.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithCancelCause(cmd.Context())
			defer cancel(nil)
			if len(cfg.Lighthouse) == 0 {
				if all := os.Getenv(envLighthouse); all != "" {
					cfg.Lighthouse = strings.Split(all, ",")
				}
			}
			if err := guardflags.Apply(&guarded); err != nil {
				return err
			}
			g, err := guard.Open(guarded)
			if err != nil {
				return err
			}
			cfg.Open = g.Open
			cfg.Dial = append(wire.DialOptions(), g.DialOptions(guard.Party{Role: guard.Lighthouse}, "")...)
			cfg.OnKill = func(reason string) { cancel(fmt.Errorf("%w: %s", errKilled, reason)) }
			cfg.Log = zerolog.New(printable.JSONWriter(cmd.ErrOrStderr())).With().Timestamp().Logger()
			s, err := torchft.New(cfg)
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), s.Address())
			return s.Run(ctx)
		},
	}
	f := cmd.Flags()
	guardflags.Add(f, &guarded)
	guardflags.AddOpen(f, &guarded.Open)
	f.StringVar(&cfg.ReplicaID, "replica-id", "", "the replica's id, name:uuid, new at each start")
	f.StringVar(&cfg.Job, "job", "", "the job; empty: the default one, or what the id begins with")
	f.StringSliceVar(&cfg.Lighthouse, "lighthouse", nil, "addresses of lighthouse servers, host:port,… ("+envLighthouse+")")
	f.StringVar(&cfg.StoreAddress, "store", "", "the replica's own store, host:port")
	f.IntVar(&cfg.GroupWorldSize, "group-world-size", 1, "ranks of the replica")
	f.StringVar(&cfg.Listen, "listen", torchft.DefaultListen, "address for the ranks, host:port")
	f.StringVar(&cfg.Advertise, "advertise", "", "host that peers dial; empty: that of --listen")
	f.DurationVar(&cfg.BeatInterval, "beat-interval", torchft.DefaultBeatInterval, "how often the lighthouse hears of the replica")
	return cmd
}
