// Command lighthouse serves quorums to training jobs: ours, and torchft's.
//
//	lighthouse                        # one server, ledger in memory, port 29510 of this host alone
//	lighthouse --bind :29510 --token-file token           # for other hosts, too
//	lighthouse --bind :29510 --token-file token --gossip-key-file key --data-dir /var/lib/skerry --bootstrap-expect 3 --join a,b # one of three
//	lighthouse --min_replicas 2 --join_timeout_ms 10000   # torchft's spellings
//
// It ends with SIGTERM or SIGINT, status 0. Replicas whose quorum stands go on
// training without it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/oklog/run"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
	"github.com/skerry-ft/skerry/cmd/internal/guardflags"
	"github.com/skerry-ft/skerry/internal/logline"
	"github.com/skerry-ft/skerry/internal/printable"
	"github.com/skerry-ft/skerry/lighthouse"
)

func main() {
	syscall.Umask(0o077) // logs, snapshots and keys are for their owner alone
	os.Exit(execute(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}

// execute is main without the process: it returns the exit status. An
// error is one line, whatever it is made of.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	cmd := newCommand()
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	err := cli.Execute(ctx, cmd, args)
	if err != nil {
		fmt.Fprintf(stderr, "lighthouse: %s\n", printable.Line(strings.ReplaceAll(err.Error(), "\n", "; ")))
	}
	return cli.StatusOf(err)
}

// options are the flags.
type options struct {
	cfg      lighthouse.Config
	logLevel string
	logJSON  bool
	torchft  torchftFlags
	cluster  clusterFlags
}

func newCommand() *cobra.Command {
	o := &options{cfg: lighthouse.DefaultConfig()}
	cmd := &cobra.Command{
		Use:     "lighthouse",
		Short:   "Serves quorums to fault-tolerant training jobs",
		Version: version(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serve(cmd.Context(), o, cmd.Flags(), cmd.ErrOrStderr())
		},
	}
	o.add(cmd.Flags())
	cmd.AddCommand(newCACommand())
	cmd.AddCommand(newClusterCommands()...)
	cli.Strict(cmd)
	return cmd
}

func (o *options) add(f *pflag.FlagSet) {
	c := &o.cfg
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
	f.StringVar(&o.logLevel, "log-level", "info", "debug, info, warn or error")
	f.BoolVar(&o.logJSON, "log-json", false, "log JSON lines instead of text")
	f.StringSliceVar(&c.AllowHosts, "allow-host", nil, "more names under which browsers may reach the page")
	f.IntVar(&c.MaxConns, "max-conns", c.MaxConns, "most connections at a time")
	f.IntVar(&c.MaxConnsPerHost, "max-conns-per-host", c.MaxConnsPerHost, "most connections of one address")
	f.IntVar(&c.MaxReplicasPerJob, "max-replicas-per-job", c.MaxReplicasPerJob, "most replicas of one job, those that wait and those that died a moment ago too")
	o.cluster.add(f, c)
	guardflags.AddServer(f, &c.Guard)
	f.BoolVar(&c.OpenJoins, "open-joins", false, "let replicas join without the token, as torchft's must: whoever reaches the port may")
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
	derive(flags, &o.cfg)
	o.cfg.Log, o.cfg.Version = log, version()
	server, err := lighthouse.New(o.cfg)
	if err != nil {
		return err
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
	level, err := zerolog.ParseLevel(o.logLevel)
	if err != nil || o.logLevel == "" {
		return zerolog.Logger{}, fmt.Errorf("log-level = %q, want debug, info, warn or error", o.logLevel)
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

// version is the module's, as the toolchain recorded it.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "development"
	}
	return info.Main.Version
}
