package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
	"github.com/skerry-ft/skerry/internal/problems"
	"github.com/skerry-ft/skerry/internal/sim"
)

// simFlags are the flags of the sim command.
type simFlags struct {
	seeds, from uint64
	near        bool // from is not said: each mutant has its own
	jobs        int
	mutant      string
	cause       string
	trace       int64
	limit       time.Duration
	most        int
	many        manyFlags
}

// simGC is the garbage collector's target while seeds run: a world is small and
// short-lived, so that collecting less often costs little memory.
const simGC = 800

func newSimCommand() *cobra.Command {
	var f simFlags
	cmd := &cobra.Command{
		Use:   "sim",
		Short: "Run the rules in virtual time, one world a seed, and check them",
		Long: "Sim runs worlds of at least " + fmt.Sprint(sim.MinReplicas) + " replicas, " + fmt.Sprint(sim.MinSteps) +
			" steps and " + fmt.Sprint(sim.MinFaults) + " faults, one a seed, and checks the invariants of docs/PROTOCOL.md.\n" +
			"A seed that fails is shrunk to the faults that matter. With --mutant one rule is taken out, and sim fails\n" +
			"if no seed shows it; --mutant all takes out one after the other. Without --from the seeds of a mutant begin\n" +
			"a little before the first that is known to show it. Mutants: " + strings.Join(mutantNames(), ", ") + ".\n" +
			"With --cause one thing alone goes wrong, mostly for ever, and the others must go on; --cause all takes one\n" +
			"after the other. Causes:\n" + causeList() +
			"With --replicas one job of so many replicas trains in virtual time, by the rules and by what things cost,\n" +
			"and sim tells what its steps, deaths and quorums came to (docs/SCALE.md).",
		Args: cli.Args,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := oneWorldOnly(cmd.Flags(), f.many.Replicas != 0); err != nil {
				return err
			}
			if f.many.Replicas != 0 {
				f.many.Seed = f.from
				return runMany(cmd.Context(), cmd.OutOrStdout(), f.many)
			}
			f.near = !cmd.Flags().Changed("from")
			return runSim(cmd.Context(), cmd.OutOrStdout(), f)
		},
	}
	flags := cmd.Flags()
	flags.Uint64Var(&f.seeds, "seeds", 1_000, "how many seeds to run; of a mutant, at most")
	flags.Uint64Var(&f.from, "from", 1, "the first seed")
	flags.IntVar(&f.jobs, "jobs", runtime.GOMAXPROCS(0), "how many seeds run at a time")
	flags.StringVar(&f.mutant, "mutant", "", "the rule to take out, or all")
	flags.StringVar(&f.cause, "cause", "", "the one thing that goes wrong, or all")
	flags.Int64Var(&f.trace, "trace", -1, "run this seed alone, and print what happens in it")
	flags.DurationVar(&f.limit, "time", 0, "begin no seed after this time; 0: no limit")
	f.many.register(flags)
	flags.IntVar(&f.most, "failures", 3, "stop after so many seeds that fail")
	return cmd
}

func mutantNames() []string {
	var all []string
	for _, m := range sim.Mutants() {
		all = append(all, m.Name)
	}
	return all
}

func causeNames() []string {
	var all []string
	for _, c := range sim.Causes() {
		all = append(all, c.Name)
	}
	return all
}

func causeList() string {
	var b strings.Builder
	for _, c := range sim.Causes() {
		fmt.Fprintf(&b, "  %-8s %s\n", c.Name, c.Tell)
	}
	return b.String()
}

// causesOf are those that a flag names: all, or one.
func causesOf(name string) []sim.Cause {
	return slices.DeleteFunc(sim.Causes(), func(c sim.Cause) bool { return name != "all" && name != c.Name })
}

func runSim(ctx context.Context, out io.Writer, f simFlags) error {
	l := problems.List{Prefix: "--"}
	l.Want(f.seeds >= 1, "seeds", f.seeds, "at least 1")
	l.Want(f.jobs >= 1, "jobs", f.jobs, "at least 1")
	l.Want(f.most >= 1, "failures", f.most, "at least 1")
	if err := l.Err(); err != nil {
		return cli.Usage(err)
	}
	var mutants []sim.Mutant
	for _, m := range sim.Mutants() {
		if f.mutant == m.Name || f.mutant == "all" {
			mutants = append(mutants, m)
		}
	}
	if f.mutant != "" && len(mutants) == 0 {
		return cli.Usagef("--mutant = %q, want all or one of %s", f.mutant, strings.Join(mutantNames(), ", "))
	}
	causes := causesOf(f.cause)
	if f.cause != "" && (len(causes) == 0 || len(mutants) > 0) {
		return cli.Usagef("--cause = %q, want all or one of %s, and no --mutant", f.cause, strings.Join(causeNames(), ", "))
	}
	defer debug.SetGCPercent(debug.SetGCPercent(simGC))
	switch {
	case f.trace >= 0:
		s := sim.Settings{Trace: true, Mutant: append(mutants, sim.Mutant{})[0]}
		if len(causes) > 0 {
			s.Cause = causes[0].Name
		}
		return traceSeed(out, uint64(f.trace), s)
	case len(causes) > 0:
		return runCauses(ctx, out, f, causes)
	case len(mutants) > 0:
		return huntMutants(ctx, out, f, mutants)
	}
	return runSeeds(ctx, out, f)
}

// traceSeed prints what happens in a seed.
func traceSeed(out io.Writer, seed uint64, s sim.Settings) error {
	r := sim.Run(seed, s)
	fmt.Fprintln(out, r.Options)
	for _, l := range r.Trace {
		fmt.Fprintln(out, l)
	}
	if r.Err != nil {
		return fmt.Errorf("seed %d: %w", seed, r.Err)
	}
	fmt.Fprintf(out, "%d steps, %d quorums told, %d commits, together again %v after the last fault\n",
		r.Steps, r.Quorums, r.Commits, r.Recovery)
	return nil
}

// simTotals sums up results, in the order of their seeds.
type simTotals struct {
	mu     sync.Mutex
	next   uint64
	ran    int
	failed []sim.Result
	sum    sim.Result
}

// runSeeds runs seeds without a mutant; each must pass.
func runSeeds(ctx context.Context, out io.Writer, f simFlags) error {
	began, cpu := time.Now(), cpuTime()
	t := sweep(ctx, f, sim.Settings{}, f.most)
	took, used := time.Since(began), cpuTime()-cpu
	fmt.Fprintf(out, "%d seeds in %v, %v of CPU: %.1f seeds/s, %.0f seeds per CPU hour\n", t.ran, took.Round(time.Millisecond),
		used.Round(time.Millisecond), float64(t.ran)/took.Seconds(), float64(t.ran)/used.Hours())
	fmt.Fprintf(out, "%d steps, %d faults, %d crashes, %d quorums told, %d commits, %d steps settled forward, %d discarded, together again after %v at most\n",
		t.sum.Steps, t.sum.Faults, t.sum.Crashes, t.sum.Quorums, t.sum.Commits, t.sum.Forwarded, t.sum.Discarded, t.sum.Recovery.Round(time.Millisecond))
	if len(t.failed) == 0 {
		return ctx.Err()
	}
	for _, r := range t.failed {
		fmt.Fprintf(out, "\n=== seed %d, shrunk\n%s", r.Options.Seed, sim.Shrink(r.Options.Seed, sim.Settings{}).Report())
	}
	return fmt.Errorf("%d of %d seeds failed, the first is %d", len(t.failed), t.ran, t.failed[0].Options.Seed)
}

// runCauses runs seeds of each cause; each must pass.
func runCauses(ctx context.Context, out io.Writer, f simFlags, causes []sim.Cause) error {
	failed := 0
	fmt.Fprintf(out, "%-8s %6s %9s %9s %9s %12s %12s\n", "cause", "seeds", "failed", "quorums", "commits", "longest gap", "at rest")
	for _, c := range causes {
		s := sim.Settings{Cause: c.Name}
		t := sweep(ctx, f, s, f.most)
		fmt.Fprintf(out, "%-8s %6d %9d %9d %9d %12v %12v\n", c.Name, t.ran, len(t.failed), t.sum.Quorums, t.sum.Commits,
			t.sum.Gaps[0].Round(time.Millisecond), t.sum.Gaps[1].Round(time.Millisecond))
		failed += len(t.failed)
		for _, r := range t.failed {
			fmt.Fprintf(out, "\n=== seed %d, shrunk\n%s", r.Options.Seed, sim.Shrink(r.Options.Seed, s).Report())
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d seeds failed", failed)
	}
	return ctx.Err()
}

// huntMutants looks for a seed that shows each mutant.
func huntMutants(ctx context.Context, out io.Writer, f simFlags, mutants []sim.Mutant) error {
	var missed []string
	for _, m := range mutants {
		if f.near {
			f.from = m.Near()
		}
		t := sweep(ctx, f, sim.Settings{Mutant: m}, 1)
		if len(t.failed) == 0 {
			missed = append(missed, m.Name)
			fmt.Fprintf(out, "%-16s not found in %d seeds from %d\n", m.Name, t.ran, f.from)
			continue
		}
		r := t.failed[0]
		if !slices.Contains(m.Want, r.Rule) {
			missed = append(missed, m.Name)
		}
		fmt.Fprintf(out, "%-16s seed %d, after %d seeds: %v (want one of %v)\n", m.Name, r.Options.Seed, t.ran, firstLine(r.Err), m.Want)
	}
	if len(missed) > 0 {
		return fmt.Errorf("not found, or as another rule: %s", strings.Join(missed, ", "))
	}
	fmt.Fprintf(out, "all %d mutants are found\n", len(mutants))
	return ctx.Err()
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// sweep runs seeds until there are no more, or so many have failed.
func sweep(ctx context.Context, f simFlags, s sim.Settings, most int) *simTotals {
	t := &simTotals{next: f.from}
	began := time.Now()
	var wg sync.WaitGroup
	for range f.jobs {
		wg.Go(func() {
			for ctx.Err() == nil && (f.limit == 0 || time.Since(began) < f.limit) {
				seed, ok := t.take(f.from+f.seeds, most)
				if !ok {
					return
				}
				t.add(sim.Run(seed, s))
			}
		})
	}
	wg.Wait()
	slices.SortFunc(t.failed, func(a, b sim.Result) int { return int(a.Options.Seed) - int(b.Options.Seed) })
	return t
}

func (t *simTotals) take(end uint64, most int) (uint64, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.next >= end || len(t.failed) >= most {
		return 0, false
	}
	t.next++
	return t.next - 1, true
}

func (t *simTotals) add(r sim.Result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ran++
	if r.Err != nil {
		t.failed = append(t.failed, r)
	}
	t.sum.Steps += r.Steps
	t.sum.Faults += r.Faults
	t.sum.Crashes += r.Crashes
	t.sum.Quorums += r.Quorums
	t.sum.Commits += r.Commits
	t.sum.Forwarded += r.Forwarded
	t.sum.Discarded += r.Discarded
	t.sum.Recovery = max(t.sum.Recovery, r.Recovery)
	for i, gap := range r.Gaps {
		t.sum.Gaps[i] = max(t.sum.Gaps[i], gap)
	}
}

// cpuTime is what this process has used, in all its threads.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0 // it fails for no process that runs
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
