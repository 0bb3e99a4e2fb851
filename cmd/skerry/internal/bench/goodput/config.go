package goodput

import (
	"io"
	"slices"
	"strings"
	"time"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
	"github.com/skerry-ft/skerry/internal/problems"
)

// The kinds of fault.
const (
	Kill      = "kill"
	Stop      = "stop"
	Partition = "partition"
)

// Kinds are all of them.
func Kinds() []string { return []string{Kill, Stop, Partition} }

// The ways to train.
const (
	DDP    = "ddp"    // gradients are averaged in each step
	DiLoCo = "diloco" // parameters are exchanged once in digits.RoundSteps
)

// The implementations.
const (
	Skerry  = "skerry"
	Torchft = "torchft"
)

// Bounds of a Config.
const (
	maxReplicas = 128
	maxDuration = 24 * time.Hour
	maxStep     = time.Minute
	leastEvery  = time.Second
	leastStep   = time.Millisecond
)

// Config says what is measured.
type Config struct {
	Impl       string        // Skerry or Torchft
	Mode       string        // DDP or DiLoCo; torchft has DDP here
	Replicas   int           // 2 or more
	Step       time.Duration // the device's time of one
	Duration   time.Duration // from the first step of all on
	Every      time.Duration // between two faults; 0: by EverySteps
	EverySteps int64         // steps between two faults; 0: by Every
	Faults     []string      // of Kinds
	Hold       time.Duration // how long a replica is stopped, or cut off
	Seed       uint64
	LogDir     string // an existing folder for what processes write to standard error; "": none

	Progress io.Writer // lines for a person; nil: none
}

// Default is the test that is like the one that was published for torchft.
func Default() Config {
	return Config{
		Impl: Skerry, Mode: DDP, Replicas: 32, Step: 250 * time.Millisecond, Duration: 30 * time.Minute,
		Every: 29 * time.Second, Faults: []string{Kill, Stop}, Hold: 5 * time.Second, Seed: 1,
	}
}

// Validate returns all problems, each as a flag's value and its bound.
func (c Config) Validate() error {
	l := problems.List{Prefix: "--"}
	l.Want(c.Impl == Skerry || c.Impl == Torchft, "impl", c.Impl, "%s or %s", Skerry, Torchft)
	l.Want(c.Mode == DDP || c.Mode == DiLoCo, "mode", c.Mode, "%s or %s", DDP, DiLoCo)
	l.Want(c.Impl != Torchft || c.Mode == DDP, "mode", c.Mode, "%s with --impl %s", DDP, Torchft)
	problems.Within(&l, "replicas", c.Replicas, 2, maxReplicas)
	problems.Within(&l, "step", c.Step, leastStep, maxStep)
	problems.Within(&l, "duration", c.Duration, leastEvery, maxDuration)
	l.Want((c.Every == 0) != (c.EverySteps == 0), "every", c.Every, "a time, or 0 with --every-steps")
	l.Want(c.Every == 0 || c.Every >= leastEvery, "every", c.Every, "%v or more", leastEvery)
	l.Want(c.EverySteps >= 0, "every-steps", c.EverySteps, "0 or more")
	problems.Within(&l, "hold", c.Hold, 100*time.Millisecond, time.Hour)
	l.Want(len(c.Faults) > 0, "faults", "", "one or more of %s", strings.Join(Kinds(), ", "))
	for _, f := range c.Faults {
		l.Want(slices.Contains(Kinds(), f), "faults", f, "one or more of %s", strings.Join(Kinds(), ", "))
	}
	if slices.Contains(c.Faults, Partition) {
		l.Add(mayPartition())
	}
	return cli.Usage(l.Err())
}

// partitions tells whether processes need networks of their own.
func (c Config) partitions() bool { return slices.Contains(c.Faults, Partition) }
