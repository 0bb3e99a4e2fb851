package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/skerry-ft/skerry/cmd/internal/buildinfo"
	"github.com/skerry-ft/skerry/cmd/internal/cli"
	"github.com/skerry-ft/skerry/cmd/internal/lighthousecmd"
	"github.com/skerry-ft/skerry/cmd/skerry/internal/bench"
	"github.com/skerry-ft/skerry/cmd/skerry/internal/bench/goodput"
	"github.com/skerry-ft/skerry/cmd/skerry/internal/chaos"
	"github.com/skerry-ft/skerry/cmd/skerry/internal/chaos/faults"
	"github.com/skerry-ft/skerry/cmd/skerry/internal/demo"
	"github.com/skerry-ft/skerry/cmd/skerry/internal/runcmd"
	"github.com/skerry-ft/skerry/cmd/skerry/internal/scale"
	"github.com/skerry-ft/skerry/internal/spool"
	"github.com/skerry-ft/skerry/launch"
	"github.com/skerry-ft/skerry/pg/baby"
	"github.com/skerry-ft/skerry/pg/tcp"
	"github.com/skerry-ft/skerry/train/spawn"
)

func main() {
	launch.Init() // does not return in the keeper of skerry run
	if err := registerBackends(); err != nil {
		fmt.Fprintf(os.Stderr, "skerry: %v\n", err)
		os.Exit(1)
	}
	if status, keeper := faults.Keep(); keeper { // this process keeps one that skerry chaos has stopped
		os.Exit(status)
	}
	registerWorkers()
	baby.Init() // does not return in a worker, or in a backend's child
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// registerBackends names the backends that pg.Open knows.
func registerBackends() error {
	return errors.Join(tcp.Register(), baby.Register(tcp.Name))
}

// registerWorkers names what this binary can be re-executed as.
func registerWorkers() {
	demo.RegisterWorkers()
	goodput.RegisterWorkers()
	spawn.Register(bench.WorkerAllReduce, bench.AllReduceWorker)
	spawn.Register(bench.WorkerLighthouse, bench.LighthouseWorker)
	spawn.Register(bench.WorkerHeal, bench.HealWorker)
}

// run is main without the process: it returns the exit status.
func run(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := newRoot()
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := cli.Execute(ctx, root, args)
	interrupted := ctx.Err() != nil
	stop() // a second signal ends what is left
	if err == nil {
		return 0
	}
	last := spool.New(stderr)
	defer last.Close(sayLimit) //nolint:errcheck // there is nothing more to tell it to
	if interrupted && !cli.HasStatus(err) {
		fmt.Fprintln(last, "skerry: interrupted")
		return cli.StatusInterrupted
	}
	cli.Say(last, "skerry", err)
	return cli.StatusOf(err)
}

// sayLimit is how long what reads our errors may take for the last of them, lest a terminal
// that is stopped keep the exit status from a scheduler.
const sayLimit = 5 * time.Second

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:     "skerry",
		Short:   "Fault-tolerant, resizable process groups for training",
		Version: buildinfo.Read().Text("skerry"),
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.AddCommand(newReplicaCommands()...)
	root.AddCommand(runcmd.Command(), scale.Command(), demo.Command(), chaos.Command(), newStatusCommand(), newWhyCommand(), newEventsCommand(), newHistoryCommand(), newJobsCommand(), newJobCommand(), newBenchCommand(), newSimCommand(), newTraceCommand(), newTorchftManagerCommand(), newTorchftProxyCommand(), newStoreCommand(), newTokenCommand(), newVersionCommand(),
		lighthousecmd.New(), lighthousecmd.NewMembers())
	cli.Strict(root)
	return root
}
