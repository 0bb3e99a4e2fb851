package runcmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
	"github.com/skerry-ft/skerry/cmd/internal/connect"
	"github.com/skerry-ft/skerry/cmd/skerry/internal/reap"
	"github.com/skerry-ft/skerry/cmd/skerry/internal/scale"
	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/logline"
	"github.com/skerry-ft/skerry/internal/spool"
	"github.com/skerry-ft/skerry/launch"
	"github.com/skerry-ft/skerry/lighthouse/api"
)

// Exit statuses of a command that cannot be run, as shells have them.
const (
	statusNotRunnable = 126
	statusNoCommand   = 127
)

// options are the flags.
type options struct {
	cfg        launch.Config
	lighthouse connect.Flags
	asks       connect.Flags // the same once they are filled in, which no one changes
	python     pythonFlags
	level      *cli.Choice
	report     string
	forwardHUP bool
	view       bool

	stdout, stderr *spool.Writer
	below          *below // what stderr is written to
}

// Command is skerry run: it starts replicas, and starts them again.
func Command() *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:   "run [flags] -- COMMAND [ARGUMENT…]",
		Short: "Start the replicas of a job on this host, and start each again when it dies",
		Long: `Start the replicas of a job on this host, and start each again when it dies: any command, in any language. Each
process finds its place in its environment, as torchrun's and torchft's do.

A rank that dies ends its replica, which alone is started again, after a pause. --max-restarts is how often that may
happen; steps that the replica commits give it back. Replicas that join, heal or drain cost nothing. Where fewer than
--min-replicas are done or may still run, the job has failed, and ends.

SIGTERM and Ctrl-C are passed on to all ranks, which drain; after --grace they are killed, or by a second signal. SIGHUP
is ignored. Nothing that was started outlives this command, not even kill -9.

Exit status: 0 if all replicas that count ended with 0, after SIGTERM, too; else that of the rank that was the cause: its
own, or 128 and its signal; after a signal, 128 and that, if not all have ended well; 126 and 127 for a command that
cannot be run, or that is not there; 2 for a command line that cannot be right. docs/LAUNCH.md has the variables, and
what torchrun's flags are here.`,
		Example: `  skerry run --replicas 4 --max-restarts 10 -- python train.py --lr 0.1
  skerry run --replicas 2 --nproc-per-replica 4 --cuda-devices 0,1,2,3,4,5,6,7 --log-dir logs -- python train.py
  skerry run --nnodes 3 --node-rank 0 --replicas 2 --lighthouse head:29510 --job vision -- ./trainer`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("COMMAND is missing, want: skerry run [flags] -- COMMAND [ARGUMENT…]")
			}
			return nil
		},
		RunE: o.run,
	}
	o.add(cmd)
	return cmd
}

func (o *options) add(cmd *cobra.Command) {
	f, c := cmd.Flags(), &o.cfg
	f.SetInterspersed(false) // what follows the command is its own
	f.SortFlags = false
	f.IntVar(&c.Replicas, "replicas", 1, "replicas on this host")
	f.IntVar(&c.Ranks, "nproc-per-replica", 1, "processes of a replica, which stand or fall together")
	f.StringVar(&c.Job, "job", "default", "the job under whose name replicas meet")
	f.IntVar(&c.MaxRestarts, "max-restarts", 10, "crashes that a replica may have before it is given up, beside those that were given back")
	f.Int64Var(&c.RefillSteps, "refill-steps", launch.DefaultRefillSteps, "committed steps of a replica that give one crash back")
	f.DurationVar(&c.RefillAfter, "refill", launch.DefaultRefillAfter, "life that gives one back, of a replica that no lighthouse knows")
	f.IntVar(&c.MinReplicas, "min-replicas", 1, "replicas that must be done or able to run; with fewer the job has failed. A lighthouse of this command forms no quorum of fewer")
	f.DurationVar(&c.Grace, "grace", launch.DefaultGrace, "time between SIGTERM and SIGKILL for ranks that are to drain")
	f.DurationVar(&c.KillGrace, "kill-grace", launch.DefaultKillGrace, "the same for the other ranks of a replica of which one has died")
	f.BoolVar(&o.forwardHUP, "forward-hup", false, "pass SIGHUP on to the ranks; else it is ignored")
	f.StringSliceVar(&c.CUDADevices, "cuda-devices", nil, "GPUs of this host, a,b,c: each replica sees as many as it has ranks; empty: all see all")
	f.StringVar(&c.LogDir, "log-dir", "", "folder for logs, DIR/JOB/replica-0/attempt-0/rank-0.log, in place of the terminal; empty: none")
	f.BoolVar(&c.Tee, "tee", false, "with --log-dir: write to the terminal, too")
	f.BoolVar(&o.view, "view", false, "with --log-dir: draw on the terminal what the lighthouse knows of the job, as skerry status --watch does")
	f.StringVar(&o.report, "report", "", "file for a report as JSON at the end; empty: none")
	o.level = cli.NewChoice("info", "debug", "warn", "error")
	f.Var(o.level, "log-level", "what is told on standard error of replicas that start and end, least")
	o.python.add(f)
	cli.Group(f, "Flags of a job on several hosts", func(f *pflag.FlagSet) {
		c.Nodes = 1
		f.Var(&nodes{n: &c.Nodes}, "nnodes", "hosts on which this command runs, each with --replicas until skerry scale says another number; they need one lighthouse")
		f.IntVar(&c.Node, "node-rank", 0, "which of them this is, from 0: it has the replicas with this number, and every --nnodes after it")
	})
	o.lighthouse.AddOptional(cmd, "one of this process")
	cli.Group(f, cli.Connection, func(f *pflag.FlagSet) {
		f.StringVar(&c.Listen, "lighthouse-listen", "127.0.0.1:0", "where a lighthouse of this command listens, host:port; port 0: any")
	})
	addTorchrun(cmd)
}

// fields are the flags that are called otherwise than the fields that errors name.
var fields = map[string]string{
	"Command": "COMMAND", "Ranks": "--nproc-per-replica", "Nodes": "--nnodes", "Node": "--node-rank", "RefillAfter": "--refill",
}

// run runs the job to its end.
func (o *options) run(cmd *cobra.Command, args []string) (err error) {
	if err := torchrunOnly(cmd); err != nil {
		return err
	}
	signals := make(chan os.Signal, 8) // room for a burst
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2)
	defer signal.Stop(signals)
	// What reads our output may be gone, which is no reason to end training, nor to end with
	// another status than the job's: to the end of the process.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	defer o.spools(cmd)()
	if err := o.fill(cmd, args); err != nil {
		return err
	}
	l, err := launch.New(o.cfg)
	if e, ok := errors.AsType[*launch.CommandError](err); ok {
		return cli.WithStatus(statusOf(e), cli.Flagged(err, cmd.Flags(), fields))
	} else if err != nil {
		return cli.Usage(cli.Flagged(err, cmd.Flags(), fields))
	}
	stop := make(chan struct{})
	by := make(chan syscall.Signal, 1)
	go func() { by <- o.pass(l, signals, stop) }()
	reaping, end := context.WithCancel(context.WithoutCancel(cmd.Context()))
	var reaper sync.WaitGroup
	if reap.First() {
		reaper.Go(func() { reap.Run(reaping) })
	}
	scaled, err := scale.Listen(o.cfg.Job, &orders{launcher: l, o: o})
	if err != nil {
		o.cfg.Log.Warn().Err(err).Msg("skerry scale does not reach this job")
	}
	hide := o.show(cmd, l)
	report, err := l.Run(cmd.Context())
	hide()
	if scaled != nil {
		_ = scaled.Close() // it hears no more
	}
	end()
	reaper.Wait()
	signal.Stop(signals) // those that came are in it
	close(stop)
	ended := <-by
	if ended == 0 && cmd.Context().Err() != nil {
		ended = early(cmd.Context())
	}
	return o.tell(report, err, ended)
}

// early is the signal that ended the program's context before this command heard signals.
func early(ctx context.Context) syscall.Signal {
	if strings.Contains(context.Cause(ctx).Error(), syscall.SIGTERM.String()) {
		return syscall.SIGTERM
	}
	return syscall.SIGINT
}

// closeLimit is how long what reads our output may take for what was written last.
const closeLimit = 2 * time.Second

// spools has the command write to queues, for what reads its output may stop to do so: neither
// ranks nor what is told of them wait for that. The function that it returns ends them.
func (o *options) spools(cmd *cobra.Command) (end func()) {
	o.below = &below{to: cmd.ErrOrStderr()}
	o.stdout, o.stderr = spool.New(cmd.OutOrStdout()), spool.New(o.below)
	return func() {
		for _, s := range []*spool.Writer{o.stdout, o.stderr} {
			_, _, _ = s.Close(closeLimit) // who does not read cannot be told
		}
	}
}

// zeros are the flags whose zero would mean the default, and what is wanted in its place.
var zeros = map[string]string{
	"replicas": "1 or more", "nproc-per-replica": "1 or more", "nnodes": "1 or more", "min-replicas": "1 or more",
	"refill-steps": "1 or more; so many that it is never reached gives none back",
	"refill":       "more; so long that it is never reached, as 10000h, gives none back",
	"grace":        "more: 1ms kills as good as at once",
	"kill-grace":   "more: 1ms kills as good as at once",
}

// fill fills in what several flags say together.
func (o *options) fill(cmd *cobra.Command, args []string) (err error) {
	c := &o.cfg
	if err := teeOfRanks(cmd, args); err != nil {
		return err
	}
	if c.Command, err = o.python.command(args); err != nil {
		return err
	}
	if err := o.checkView(cmd); err != nil {
		return err
	}
	for name, want := range zeros {
		if f := cmd.Flags().Lookup(name); f.Value.String() == "0" || f.Value.String() == "0s" {
			return cli.Usagef("--%s = 0, want %s", name, want)
		}
	}
	if err := cli.Address(cmd, "lighthouse-listen"); err != nil {
		return err
	}
	if c.Lighthouse, err = o.lighthouse.Given(); err != nil {
		return err
	}
	if c.Guard, err = o.lighthouse.Guard(); err != nil {
		return err
	}
	c.Env = guardVars(c.Guard)
	o.asks = o.lighthouse
	c.Steps, c.Wanted = o.steps, o.wanted
	level, err := zerolog.ParseLevel(o.level.String())
	if err != nil {
		return err
	}
	c.Stdout, c.Stderr = o.stdout, o.stderr
	plain := os.Getenv("NO_COLOR") != ""
	c.Color = cli.IsTerminal(cmd.OutOrStdout()) && !plain
	c.Log = logline.Console(o.stderr, cli.IsTerminal(cmd.ErrOrStderr()) && !plain && !o.view).Level(level)
	return nil
}

// guardVars hands what flags say of certificates and tokens on to the ranks.
func guardVars(o guard.Options) (vars []string) {
	for name, value := range map[string]string{
		guard.EnvTLSCA: o.TLSCA, guard.EnvTLSCert: o.TLSCert, guard.EnvTLSKey: o.TLSKey, guard.EnvTLSServerName: o.TLSServerName, guard.EnvTokenFile: o.TokenFile,
	} {
		if value != "" {
			vars = append(vars, name+"="+value)
		}
	}
	if o.TLSAnyRole {
		vars = append(vars, guard.EnvTLSAnyRole+"="+strconv.FormatBool(true))
	}
	return vars
}

// steps asks a lighthouse elsewhere how far the job's replicas are.
func (o *options) steps(ctx context.Context) ([]launch.Seen, error) {
	st, err := overviewOf(ctx, &o.lighthouse, o.cfg.Job)
	if err != nil {
		return nil, err
	}
	var all []launch.Seen
	for _, j := range st.Jobs {
		for _, r := range j.Replicas {
			all = append(all, launch.Seen{ReplicaID: r.ReplicaID, Step: r.Step, Trains: r.Participant && !r.Heals})
		}
	}
	return all, nil
}

// overviewOf is what a lighthouse knows of a job: nothing, before a replica of it has come.
func overviewOf(ctx context.Context, lighthouse *connect.Flags, job string) (api.Overview, error) {
	st, err := lighthouse.OverviewOf(ctx, job)
	if err != nil { // it knows no such job, or is an old one, which has no page of one job
		st, _, err = lighthouse.Overview(ctx)
	}
	st.Jobs = slices.DeleteFunc(st.Jobs, func(j api.Job) bool { return j.Job != job })
	return st, err
}

// pass passes signals on until stop is closed. The first SIGINT or SIGTERM ends the command's
// context, by which the job stops; pass returns it. The second one kills.
func (o *options) pass(l *launch.Launcher, signals <-chan os.Signal, stop <-chan struct{}) (by syscall.Signal) {
	take := func(got os.Signal) {
		s, _ := got.(syscall.Signal)
		switch {
		case s == syscall.SIGINT || s == syscall.SIGTERM:
			if by != 0 {
				l.Kill()
			}
			by = s
		case s != syscall.SIGHUP || o.forwardHUP:
			l.Signal(s)
		default:
			o.cfg.Log.Warn().Msg("SIGHUP ignored; --forward-hup passes it on")
		}
	}
	for {
		select {
		case got := <-signals:
			take(got)
		case <-stop:
			for len(signals) > 0 { // the one that ended the job may be among them
				take(<-signals)
			}
			return by
		}
	}
}

// tell writes the report, and returns what the command ends with.
func (o *options) tell(r launch.Report, err error, by syscall.Signal) error {
	w := o.stderr
	if f, ok := errors.AsType[*launch.Failure](err); ok {
		_ = f.WriteTail(w) // as below
	}
	if len(r.Replicas) > 0 { // else nothing was started
		_ = r.Write(w) // of a terminal that is gone there is nothing more to tell
	}
	if o.report != "" {
		text, jerr := json.MarshalIndent(r, "", "  ")
		if jerr == nil {
			jerr = os.WriteFile(o.report, append(text, '\n'), 0o644)
		}
		if jerr != nil {
			err = errors.Join(err, fmt.Errorf("--report: %w", jerr))
		}
	}
	if err != nil {
		return cli.WithStatus(statusOf(err), err)
	}
	count := make(map[launch.Outcome]int)
	for _, one := range r.Replicas {
		count[one.Outcome]++
	}
	well := count[launch.Done]
	// One that was given up before has been told of, and no signal was the cause.
	if by != 0 && count[launch.Stopped] > 0 {
		return cli.WithStatus(128+int(by), fmt.Errorf("stopped by %s: %d of %d replicas ended well", unix.SignalName(by), well, len(r.Replicas)))
	}
	return nil
}

// statusOf is the exit status of a job that has failed.
func statusOf(err error) int {
	if f, ok := errors.AsType[*launch.Failure](err); ok && f.Status > 0 {
		return f.Status
	}
	if e, ok := errors.AsType[*launch.CommandError](err); ok {
		if errors.Is(e, os.ErrPermission) || errors.Is(e, syscall.ENOEXEC) {
			return statusNotRunnable
		}
		return statusNoCommand
	}
	return cli.StatusOf(err)
}
