package main

import (
	"context"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
	"github.com/skerry-ft/skerry/internal/sim/many"
)

// manyFlags are the flags of sim --replicas.
type manyFlags struct {
	many.Options

	costs []string // "name=duration"
}

func (f *manyFlags) register(flags *pflag.FlagSet) {
	costs := many.DefaultCosts()
	flags.IntVar(&f.Replicas, "replicas", 0, fmt.Sprintf("run one job of so many replicas, 1 to %d, and tell what it costs; 0: the worlds of seeds", many.MaxReplicas))
	flags.DurationVar(&f.Duration, "duration", 20*time.Second, "of a job of --replicas: how long it trains, in virtual time")
	flags.DurationVar(&f.Step, "step", 250*time.Millisecond, "of a job of --replicas: how long a trainer computes a step")
	flags.DurationVar(&f.KillEvery, "kill-every", 5*time.Second, "of a job of --replicas: how often one of them is killed; 0: never")
	flags.DurationVar(&f.Restart, "restart", time.Second, "of a job of --replicas: after which a killed one comes again; 0: never")
	flags.IntVar(&f.Leaders, "leaders", 1, "of a job of --replicas: how often the lighthouse's leader changes")
	flags.StringSliceVar(&f.costs, "cost", nil, "of a job of --replicas: what something costs, as NAME=DURATION, of "+costs.String())
}

// oneWorldOnly refuses flags of the other of sim's two uses, which would be of no effect.
func oneWorldOnly(flags *pflag.FlagSet, many bool) (err error) {
	ofMany := []string{"duration", "step", "kill-every", "restart", "leaders", "cost"}
	ofSeeds := []string{"seeds", "jobs", "mutant", "cause", "trace", "time", "failures"}
	wrong, want := ofMany, "want it with --replicas alone"
	if many {
		wrong, want = ofSeeds, "want it without --replicas"
	}
	flags.Visit(func(f *pflag.Flag) {
		if err == nil && slices.Contains(wrong, f.Name) {
			err = cli.Usagef("--%s = %s: %s", f.Name, f.Value, want)
		}
	})
	return err
}

// runMany trains one job of many replicas, of the first seed.
func runMany(ctx context.Context, out io.Writer, f manyFlags) error {
	costs := many.DefaultCosts()
	for _, text := range f.costs {
		if err := costs.Set(text); err != nil {
			return cli.Usagef("--%w", err)
		}
	}
	if err := f.Validate(); err != nil {
		return cli.Usage(err)
	}
	defer debug.SetGCPercent(debug.SetGCPercent(manyGC))
	began, cpu := time.Now(), cpuTime()
	r, err := many.Run(ctx, f.Options, costs)
	r.Write(out)
	fmt.Fprintf(out, "this took %v, %v of CPU\n", time.Since(began).Round(time.Millisecond), (cpuTime() - cpu).Round(time.Millisecond))
	return err
}

// manyGC is the garbage collector's target: a thousand lists of a thousand members are much at one time.
const manyGC = 200
