package main

import (
	"errors"
	"fmt"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
	"github.com/skerry-ft/skerry/cmd/internal/guardflags"
	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/logline"
	"github.com/skerry-ft/skerry/internal/netaddr"
	"github.com/skerry-ft/skerry/store"
	"github.com/skerry-ft/skerry/store/certs"
)

// newStoreCommand serves a store by itself, for those who have no Go.
func newStoreCommand() *cobra.Command {
	var cfg store.ServerConfig
	var guarded guard.Options
	var job string
	cmd := &cobra.Command{
		Use:   "store",
		Short: "Serve a rendezvous store, which PyTorch's TCPStore clients can use",
		Long: `Serve a rendezvous store in the protocol of PyTorch's TCPStore, in memory, until it is ended. Its address is the
first line of standard output. PyTorch's clients, of 2.4 or later, use it in place of the store that rank 0 would
serve: pass them TCPStore(host, port, is_master=False), or set TORCHELASTIC_USE_AGENT_STORE=True for tcp://.

With certificates (--tls-ca, --tls-cert, --tls-key, of role replica) it speaks TLS and takes replicas alone, by their
certificates. PyTorch's clients speak none: for them leave certificates out, or say --tls-data=false.`,
		Args: cli.Args,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.Address(cmd, "listen"); err != nil {
				return err
			}
			if err := guarded.FromEnv(); err != nil {
				return err
			}
			cfg.Open = guarded.Open
			var err error
			if cfg.TLS, err = certs.FromOptions(guarded, job); err != nil {
				return err
			}
			reached, err := netaddr.Reached(cmd.Context(), cfg.Listen)
			if err != nil || reached && !cfg.Open && cfg.TLS == nil {
				return cli.Usage(errors.Join(err, fmt.Errorf("--listen = %q is reached by other hosts, and nothing guards it: want a loopback address, "+
					"or --tls-ca, --tls-cert and --tls-key, or --open, which lets whoever comes read and change every key", cfg.Listen)))
			}
			cfg.Log = logline.JSON(cmd.ErrOrStderr()).Level(zerolog.InfoLevel)
			s, err := store.NewServer(cfg)
			if err != nil {
				return cli.Usage(cli.Flagged(err, cmd.Flags(), nil))
			}
			fmt.Fprintln(cmd.OutOrStdout(), s.Addr())
			return s.Run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVar(&cfg.Listen, "listen", "127.0.0.1:29500", "address for clients, host:port")
	f.StringVar(&job, "job", "", "refuse replicas whose certificates are bound to another job; empty: none")
	cli.Group(f, cli.Connection, func(f *pflag.FlagSet) {
		guardflags.AddTLS(f, &guarded)
		guardflags.AddData(f, &guarded)
		guardflags.AddOpen(f, &guarded.Open)
	})
	return cmd
}
