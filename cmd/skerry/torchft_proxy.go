package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
	"github.com/skerry-ft/skerry/cmd/internal/connect"
	"github.com/skerry-ft/skerry/cmd/internal/guardflags"
	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/logline"
	"github.com/skerry-ft/skerry/manager/torchft"
)

// firstPassed is the descriptor of the first socket that systemd passes.
const firstPassed = 3

// newTorchftProxyCommand is the one address that a job of torchft's knows.
func newTorchftProxyCommand() *cobra.Command {
	var cfg torchft.ProxyConfig
	var guarded guard.Options
	var ends ends
	var listen string
	cmd := &cobra.Command{
		Use:   "torchft-proxy",
		Short: "Pass the calls of torchft's managers on to lighthouse servers, over the death of any of them",
		Long: `Serve torchft's LighthouseService beside a job, and pass every call on to one of several lighthouse servers.
torchft's managers know one address, TORCHFT_LIGHTHOUSE, and with its default of no retries the death of the server
there ends the whole job. With a proxy on each host nothing in the job changes:

  skerry torchft-proxy --lighthouse server1:29510,server2:29510,server3:29510
  TORCHFT_LIGHTHOUSE=http://127.0.0.1:29510 python train.py

A call waits here, until its caller's deadline, while servers die, hang and elect another leader. The proxy speaks
to the servers over TLS and with the token, if it is given them; torchft's managers know neither, so it listens on
loopback. It keeps no state, votes on nothing, and takes the socket that systemd passes it.`,
		Args: cli.Args,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(needLighthouse(cmd), cli.Address(cmd, "bind")); err != nil {
				return cli.Usage(err)
			}
			var err error
			if cfg.Lighthouse, cfg.Dial, err = reach(cfg.Lighthouse, &cfg.Job, &guarded); err != nil {
				return err
			}
			cfg.Log = logline.JSON(cmd.ErrOrStderr())
			if err := cfg.Validate(); err != nil {
				return cli.Flagged(err, cmd.Flags(), nil)
			}
			if cfg.Listener, err = proxyListener(listen, guarded.Open); err != nil {
				return err
			}
			p, err := torchft.NewProxy(cfg)
			if err != nil {
				return err
			}
			ctx, stop := ends.watch(cmd.Context(), cmd.InOrStdin(), cfg.Log)
			defer stop()
			fmt.Fprintf(cmd.OutOrStdout(), "http://%s\n", p.Addr())
			return p.Run(ctx)
		},
	}
	f := cmd.Flags()
	guardflags.Add(f, &guarded)
	f.StringSliceVar(&cfg.Lighthouse, "lighthouse", nil, "addresses of lighthouse servers, host:port,… ("+connect.EnvLighthouse+")")
	f.StringVar(&listen, "bind", torchft.DefaultProxyListen, "address for the job's managers, host:port")
	guardflags.AddOpen(f, &guarded.Open)
	f.StringVar(&cfg.Job, "job", "", "the job; empty: the default one, or what the replicas' ids begin with")
	ends.add(f)
	return cmd
}

// proxyListener is the socket that systemd passed, or a new one.
func proxyListener(addr string, open bool) (net.Listener, error) {
	listener, err := passedListener(os.Getenv("LISTEN_PID"), os.Getenv("LISTEN_FDS"))
	if listener == nil && err == nil {
		listener, err = net.Listen("tcp", addr)
	}
	if err != nil {
		return nil, fmt.Errorf("listen for the job's managers: %w", err)
	}
	if !open && !guard.IsLoopback(listener.Addr()) {
		err := cli.Usagef("--bind = %s, want a loopback address, or --open: whoever reaches it speaks to the lighthouse as this proxy", listener.Addr())
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}

// passedListener is the one socket that systemd passed to this process, by its
// environment; nil: none.
//
// Source: sd_listen_fds(3).
func passedListener(pid, count string) (net.Listener, error) {
	if pid != strconv.Itoa(os.Getpid()) {
		return nil, nil
	}
	if count != "1" {
		return nil, fmt.Errorf("LISTEN_FDS = %q, want 1: one socket", count)
	}
	file := os.NewFile(firstPassed, "socket of systemd")
	listener, err := net.FileListener(file)
	return listener, errors.Join(err, file.Close()) // the listener has a copy
}
