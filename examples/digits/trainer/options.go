package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/skerry-ft/skerry/examples/digits"
	"github.com/skerry-ft/skerry/internal/flagerror"
)

// defaultLighthouse is where a lighthouse on this host is that has no other address.
const defaultLighthouse = "127.0.0.1:29510"

// maxStatus is the highest exit status that a process may choose: shells tell of signals by
// those above.
const maxStatus = 125

// options are the flags.
type options struct {
	digits      digits.Config
	lighthouse  []string // nil: the environment's, or defaultLighthouse
	listen      string
	advertise   string
	open        bool
	tlsData     *bool
	linger      time.Duration
	stepTimeout time.Duration
	keep        keepOptions
	gpu         gpuOptions
	rounds      roundOptions
	drained     int // exit status of a replica that was drained before its last step
	verbose     bool
	debug       bool
	help        bool // was all that was asked for
}

// parse reads the flags. It prints the help if that is asked for; what is wrong
// is returned in one line.
func parse(args []string, stdout io.Writer) (options, error) {
	var o options
	c := &o.digits
	f := pflag.NewFlagSet("trainer", pflag.ContinueOnError)
	f.Usage = func() {} // errors are one line
	f.Func("lighthouse", "addresses of lighthouse servers, host:port, a,b,c; one that answers is enough; unless set, SKERRY_LIGHTHOUSE's, or "+defaultLighthouse, func(text string) error {
		o.lighthouse = []string{text}
		return nil
	})
	f.StringVar(&o.listen, "listen", "", "address for peers, host:port; empty: that from which the lighthouse is reached, or SKERRY_LISTEN")
	f.StringVar(&o.advertise, "advertise", "", "host that peers dial; empty: that of --listen, or SKERRY_ADVERTISE")
	f.BoolVar(&o.open, "open", false, "serve whoever comes, where other hosts reach this one and nothing guards it; or SKERRY_OPEN=1")
	f.BoolFunc("tls-data", "encrypt the data plane and the store where there are certificates (default true); or SKERRY_TLS_DATA", func(text string) error {
		on, err := strconv.ParseBool(text)
		o.tlsData = &on
		return err
	})
	f.Uint64Var(&c.Seed, "seed", 1, "random seed of data and model, the same on all replicas")
	f.Int64Var(&c.Steps, "steps", 600, "steps to train, the same on all replicas")
	f.IntVar(&c.Shard.Index, "index", 0, "index of this replica, 0 to replicas-1; no two may have the same; or a launcher's REPLICA_GROUP_ID")
	f.IntVar(&c.Shard.Count, "replicas", 2, "number of shards of the data; or a launcher's NUM_REPLICA_GROUPS")
	f.StringVar(&c.Hook, "hook", digits.HookNone, "how gradients are averaged, the same on all replicas: "+strings.Join(digits.Hooks(), ", "))
	f.DurationVar(&c.StepTime, "step-time", 50*time.Millisecond, "how long a step takes at least")
	f.DurationVar(&o.stepTimeout, "step-timeout", time.Minute, "bounds everything that a step waits for; half a minute of it at most for the lighthouse")
	f.IntVar(&o.drained, "drained-status", 0, "exit status after a drain before the last step, for schedulers that are to start the replica again")
	f.DurationVar(&o.linger, "linger", 5*time.Second, "how long to stay for others at the end")
	f.StringVar(&o.keep.dir, "checkpoint-dir", "", "folder for checkpoints, one for all replicas; a run goes on from the newest whole one in it; empty: none")
	f.Int64Var(&o.keep.every, "checkpoint-every", 50, "steps between two checkpoints")
	f.StringVar(&o.gpu.how, "gpu", "", "average gradients on a GPU: by nccl in this process, or by baby:nccl in a child; empty: on the CPU")
	f.IntVar(&o.gpu.index, "gpu-index", 0, "which GPU, among those of CUDA_VISIBLE_DEVICES")
	f.StringVar(&o.rounds.by, "rounds", "", "exchange parameters in rounds instead of gradients in each step: "+strings.Join(digits.RoundWays(), ", ")+"; empty: gradients")
	f.IntVar(&o.rounds.every, "rounds-every", digits.RoundSteps, "steps between two exchanges of a parameter, with --rounds")
	f.StringVar(&o.rounds.quantize, "rounds-quantize", "", "send eight bits per element, with --rounds: "+strings.Join(quantizeWays(), ", ")+"; empty: float32")
	f.BoolVar(&o.verbose, "verbose", false, "log to standard error what happens to quorums, heals and peers")
	f.BoolVar(&o.debug, "debug", false, "log each step and message too")
	err := f.Parse(dashed(args))
	if errors.Is(err, pflag.ErrHelp) {
		o.help = true
		_, err = fmt.Fprintf(stdout, "Usage of trainer:\n%s", f.FlagUsages())
		return o, err
	}
	switch {
	case err != nil:
		return o, usageError{flagerror.Of(err, f, "trainer")}
	case f.NArg() > 0:
		return o, usageError{fmt.Errorf("unexpected argument %q, want flags only", f.Arg(0))}
	}
	if err = o.shardFromEnv(f); err == nil {
		err = o.validate()
	}
	if err != nil {
		err = usageError{err}
	}
	return o, err
}

// shardFromEnv takes what no flag names of the shard from the variables of a launcher (skerry
// run). A REPLICA_GROUP_ID alone is a name, and need not be a number.
func (o *options) shardFromEnv(f *pflag.FlagSet) error {
	if os.Getenv("NUM_REPLICA_GROUPS") == "" {
		return nil
	}
	for _, v := range []struct {
		name, flag string
		to         *int
	}{{"REPLICA_GROUP_ID", "index", &o.digits.Shard.Index}, {"NUM_REPLICA_GROUPS", "replicas", &o.digits.Shard.Count}} {
		if f.Changed(v.flag) {
			continue
		}
		n, err := strconv.Atoi(os.Getenv(v.name))
		if err != nil {
			return fmt.Errorf("%s = %q, want a whole number, or --%s", v.name, os.Getenv(v.name), v.flag)
		}
		*v.to = n
	}
	return nil
}

// totalSteps is how many steps the manager counts in the whole run. 0: that is not known, for
// with rounds a step of its is an exchange.
func (o options) totalSteps() int64 {
	if o.rounds.by != "" {
		return 0
	}
	return o.digits.Steps
}

// validate names the first flag that is wrong, and its bound.
func (o options) validate() error {
	shard := o.digits.Shard
	switch {
	case shard.Count < 1:
		return fmt.Errorf("--replicas = %d, want 1 or more", shard.Count)
	case shard.Index < 0 || shard.Index >= shard.Count:
		return fmt.Errorf("--index = %d, want 0 to %d with --replicas %d", shard.Index, shard.Count-1, shard.Count)
	case o.digits.Steps < 1:
		return fmt.Errorf("--steps = %d, want 1 or more", o.digits.Steps)
	case !slices.Contains(digits.Hooks(), o.digits.Hook):
		return fmt.Errorf("--hook = %q, want one of %s", o.digits.Hook, strings.Join(digits.Hooks(), ", "))
	case o.digits.StepTime < 0:
		return fmt.Errorf("--step-time = %v, want 0 or more", o.digits.StepTime)
	case o.stepTimeout <= 0:
		return fmt.Errorf("--step-timeout = %v, want more than 0", o.stepTimeout)
	case o.keep.every < 1:
		return fmt.Errorf("--checkpoint-every = %d, want 1 or more", o.keep.every)
	case !slices.Contains(gpuWays(), o.gpu.how):
		return fmt.Errorf("--gpu = %q, want nothing, or one of%s", o.gpu.how, strings.Join(gpuWays(), " "))
	case o.gpu.index < 0:
		return fmt.Errorf("--gpu-index = %d, want 0 or more", o.gpu.index)
	case o.gpu.how != "" && o.digits.Hook != digits.HookNone:
		return fmt.Errorf("--hook = %q with --gpu, want %s: hooks want gradients in host memory", o.digits.Hook, digits.HookNone)
	case o.drained < 0 || o.drained > maxStatus:
		return fmt.Errorf("--drained-status = %d, want 0 to %d", o.drained, maxStatus)
	case o.linger < 0:
		return fmt.Errorf("--linger = %v, want 0 or more", o.linger)
	case o.rounds.by != "":
		return o.rounds.validate(o)
	}
	return nil
}
