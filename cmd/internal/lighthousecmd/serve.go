// Package lighthousecmd is the lighthouse as a command, with those by which operators
// look after its servers: of the program lighthouse, and of skerry.
//
// The server's goroutines are those of a run group, which ends with a signal or ctx; the
// commands start none.
package lighthousecmd

import (
	"context"
	"errors"
	"io"
	"os"
	"syscall"

	"github.com/oklog/run"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/skerry-ft/skerry/cmd/internal/buildinfo"
	"github.com/skerry-ft/skerry/cmd/internal/cli"
	"github.com/skerry-ft/skerry/cmd/internal/guardflags"
	"github.com/skerry-ft/skerry/internal/logline"
	"github.com/skerry-ft/skerry/lighthouse"
)

// Run is the program lighthouse without the process: it returns the exit status. An
// error is one line, whatever it is made of.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	cmd := New()
	cmd.Version = buildinfo.Read().Text("lighthouse")
	cmd.SetVersionTemplate("{{.Version}}\n")
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	cli.Strict(cmd)
	err := cli.Execute(ctx, cmd, args)
	if err != nil {
		cli.Say(stderr, "lighthouse", err)
	}
	return cli.StatusOf(err)
}

// options are the flags.
type options struct {
	cfg      lighthouse.Config
	logLevel *cli.Choice
	logJSON  bool
	torchft  torchftFlags
	cluster  clusterFlags
}

// New is the command, with those about its servers below it.
func New() *cobra.Command {
	o := &options{cfg: lighthouse.DefaultConfig()}
	cmd := &cobra.Command{
		Use:   "lighthouse",
		Short: "Serve quorums to fault-tolerant training jobs; its commands look after servers",
		Long: `Serve quorums to fault-tolerant training jobs: ours, and torchft's, by its spellings of the flags too. It ends with
SIGTERM or SIGINT, status 0; replicas whose quorum stands go on training without it.

It listens on loopback. Where other hosts reach it (--bind :29510) it wants a token or certificates, or --open, which
lets whoever comes join, drain, evict and kill.`,
		Args: cli.Args,
		// Logs, snapshots and keys are for their owner alone; the command's process is its own.
		PersistentPreRun: func(*cobra.Command, []string) { syscall.Umask(0o077) },
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.Address(cmd, "bind"); err != nil {
				return err
			}
			if info, err := os.Stat(o.cfg.DataDir); err == nil && !info.IsDir() {
				return cli.Usagef("--data-dir = %q, want a folder, and this is none", o.cfg.DataDir)
			}
			return serve(cmd.Context(), o, cmd.Flags(), cmd.ErrOrStderr())
		},
	}
	o.add(cmd.Flags())
	cmd.AddCommand(newCACommand(), NewMembers(), newLeaveCommand(), newRemoveCommand(), newTransferCommand(), newRecoverCommand())
	return cmd
}

func (o *options) add(f *pflag.FlagSet) {
	c := &o.cfg
	o.logLevel = cli.NewChoice("info", "trace", "debug", "warn", "error")
	f.SortFlags = false
	f.StringVar(&c.Listen, "bind", c.Listen, "address for RPC and HTTP, host:port")
	f.StringVar(&c.Advertise, "advertise", c.Advertise, "address that replicas are told to find this server at, host:port; empty: that of --bind")
	f.StringVar(&c.DataDir, "data-dir", c.DataDir, "folder for the ledger; empty keeps it in memory")
	f.IntVar(&c.Rules.MinReplicas, "min-replicas", c.Rules.MinReplicas, "smallest quorum")
	f.IntVar(&c.Rules.MaxReplicas, "max-replicas", c.Rules.MaxReplicas, "largest quorum; 0: the built-in limit")
	f.DurationVar(&c.Rules.JoinTimeout, "join-timeout", c.Rules.JoinTimeout, "how long to wait for live replicas that have not joined")
	f.DurationVar(&c.Rules.HeartbeatTimeout, "heartbeat-timeout", c.Rules.HeartbeatTimeout, "silence after which a replica is dead")
	f.DurationVar(&c.TorchftHeartbeatTimeout, "torchft-heartbeat-timeout", c.TorchftHeartbeatTimeout, "the same for torchft's clients")
	f.DurationVar(&c.Rules.SuspectAfter, "suspect-after", c.Rules.SuspectAfter, "silence after which a replica is suspect")
	f.DurationVar(&c.Rules.Grace, "grace", c.Rules.Grace, "how long a replica may be suspect by one witness before it is lost")
	f.DurationVar(&c.Rules.StuckAfter, "stuck-after", c.Rules.StuckAfter, "how long a live replica may make no progress; 0: for ever")
	f.IntVar(&c.Rules.ProbationAfter, "probation-after", lighthouse.DefaultProbationAfter, "losses in a row, each within a minute of being let in, that put a replica on probation; 0: never")
	f.BoolVar(&c.Rules.EvictStuck, "evict-stuck", c.Rules.EvictStuck, "evict replicas that are stuck")
	f.DurationVar(&c.BeatInterval, "beat-interval", c.BeatInterval, "how often replicas beat")
	f.Var(o.logLevel, "log-level", "from which level on it logs")
	f.BoolVar(&o.logJSON, "log-json", false, "log JSON lines instead of text")
	f.IntVar(&c.MaxConns, "max-conns", c.MaxConns, "most connections at a time")
	f.IntVar(&c.MaxConnsPerHost, "max-conns-per-host", c.MaxConnsPerHost, "most connections of one address")
	f.IntVar(&c.MaxReplicasPerJob, "max-replicas-per-job", c.MaxReplicasPerJob, "most replicas of one job, those that wait and those that died a moment ago too")
	cli.Group(f, "Flags of one of several servers", func(f *pflag.FlagSet) { o.cluster.add(f, c) })
	cli.Group(f, "Flags of TLS, tokens and who may come", func(f *pflag.FlagSet) {
		guardflags.AddServer(f, &c.Guard)
		f.BoolVar(&c.OpenJoins, "open-joins", false, "let replicas join without the token, as torchft's must: whoever reaches the port may")
		f.BoolVar(&c.Reflection, "reflection", false, "serve gRPC's reflection, for grpcurl and its like")
		f.StringSliceVar(&c.AllowHosts, "allow-host", nil, "more names under which browsers may reach the page")
	})
	o.torchft.add(f)
}

// serve runs the server until a signal comes:
//
//	run.Group ─┬─ signals: SIGTERM, SIGINT ─▶ ends the group
//	           └─ lighthouse.Server.Run ─▶ listener, raft, jobs, sessions
func serve(ctx context.Context, o *options, flags *pflag.FlagSet, stderr io.Writer) error {
	log, err := o.logger(stderr)
	if err != nil {
		return err
	}
	if err := o.torchft.apply(flags, &o.cfg, log); err != nil {
		return err
	}
	if err := o.cluster.apply(flags, &o.cfg); err != nil {
		return err
	}
	if err := o.cfg.Guard.FromEnv(); err != nil {
		return err
	}
	if err := guardflags.Check(&o.cfg.Guard); err != nil {
		return err
	}
	derive(flags, &o.cfg)
	o.cfg.Log, o.cfg.Version = log, buildinfo.Read().Version
	if err := cli.Usage(cli.Flagged(o.cfg.Validate(), flags, fieldFlags)); err != nil {
		return err
	}
	server, err := lighthouse.New(o.cfg)
	if err != nil {
		return listenError(err, flags)
	}
	logConfig(log, flags)
	log.Info().Str("page", scheme(o.cfg)+pageHost(server.Addr().String())+"/").Msg("status page served")
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var served error // the server's, whoever ends the group
	var group run.Group
	group.Add(run.SignalHandler(ctx, syscall.SIGTERM, os.Interrupt))
	group.Add(func() error { served = server.Run(ctx); return served }, func(error) { cancel() })
	if signal, ok := errors.AsType[*run.SignalError](group.Run()); ok {
		log.Info().Stringer("signal", signal.Signal).Msg("ended by a signal")
	}
	return served
}

// scheme is what the page's address begins with.
func scheme(cfg lighthouse.Config) string {
	if cfg.Guard.TLSCert != "" {
		return "https://"
	}
	return "http://"
}

// derive makes the times that nobody gave fit the heartbeat timeout that
// somebody did.
func derive(f *pflag.FlagSet, cfg *lighthouse.Config) {
	rules := &cfg.Rules
	if !f.Changed("suspect-after") {
		rules.SuspectAfter = min(rules.SuspectAfter, rules.HeartbeatTimeout/2)
	}
	if !f.Changed("stuck-after") {
		rules.StuckAfter = max(rules.StuckAfter, rules.HeartbeatTimeout)
	}
}

func (o *options) logger(w io.Writer) (zerolog.Logger, error) {
	level, err := zerolog.ParseLevel(o.logLevel.String())
	if err != nil {
		return zerolog.Logger{}, err // a choice is a level
	}
	if o.logJSON {
		return logline.JSON(w).Level(level), nil
	}
	return logline.Console(w, cli.IsTerminal(w)).Level(level), nil
}

// logConfig logs the configuration in force, once.
func logConfig(log zerolog.Logger, flags *pflag.FlagSet) {
	e := log.Info()
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && f.Name != "help" && f.Name != "version" {
			e = e.Str(f.Name, f.Value.String())
		}
	})
	e.Msg("configuration in force")
}
