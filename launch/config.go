package launch

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os/exec"
	"time"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/problems"
	"github.com/skerry-ft/skerry/launch/internal/layout"
	"github.com/skerry-ft/skerry/lighthouse"
)

// The bounds of a configuration.
const (
	// maxProcesses bounds the ranks on one host: each is a process and a thread of this one.
	maxProcesses = 1024
	maxRestarts  = 1_000_000
	maxNodes     = 4096
)

// Config says what is started, and what it may cost. Command is needed; the zero of every
// other field works.
type Config struct {
	// Command is what each rank runs: a program, looked for in PATH if it is a bare name, and
	// its arguments.
	Command []string

	// Env is added to this process's environment, "NAME=value", for the ranks.
	Env []string

	// Dir is where the ranks run; empty: where this process does.
	Dir string

	// Job is the name under which the replicas meet. Empty means "default".
	Job string

	// Replicas is how many replicas this launcher starts, until another number is wanted. 0 means 1.
	Replicas int

	// Spares is how many starts wait, with all done that does not need a place, to take that of a
	// replica that dies: see Spares in the package's comment. Each costs the memory, and the
	// devices, of a replica. 0: none. The Command must know package spare.
	Spares int

	// Ranks is how many processes a replica has. 0 means 1.
	Ranks int

	// Nodes is how many launchers, one on each host, share the job, and Node which of them
	// this one is, from 0: the job's replicas are dealt out to them in turn, so that this one
	// starts Node, Node+Nodes and so on. 0 means 1. Each launcher restarts its own, and none of
	// them is special.
	Nodes, Node int

	// Lighthouse has the addresses of the lighthouse's servers, host:port. Empty: this
	// process serves one itself, at Listen, for as long as the job runs.
	Lighthouse []string

	// Listen is where a lighthouse of this process listens. Empty: loopback, a free port.
	Listen string

	// Guard is what a lighthouse of this process is guarded by; of one elsewhere, its TLS
	// decides the URL that torchft's replicas are told.
	Guard guard.Options

	// MaxRestarts is how many crashes a replica may have, beside those that are given back.
	// 0: none. Too low, and a bad hour ends a run that would have gone on; too high, and a
	// program that cannot work is started for minutes: ten take a minute and a half.
	MaxRestarts int

	// RefillSteps gives one crash back for so many steps that the replica has committed, as
	// the lighthouse tells it. 0 means DefaultRefillSteps.
	RefillSteps int64

	// RefillAfter gives one back for so much life, of a replica that no lighthouse knows. 0
	// means DefaultRefillAfter.
	RefillAfter time.Duration

	// MinReplicas is how many of this launcher's replicas must be done or be able to run;
	// with fewer the job has failed. A lighthouse of this process forms no quorum of fewer,
	// either. 0 means 1.
	MinReplicas int

	// Grace is how long ranks that are told to stop may take before they are killed. 0 means
	// DefaultGrace. A drain needs the rest of a step, and a quorum without the replica.
	Grace time.Duration

	// KillGrace is the same for the other ranks of a replica of which one has died. 0 means
	// DefaultKillGrace. They hang in a collective as often as not, so that all of it is lost.
	KillGrace time.Duration

	// Stdout and Stderr take the lines of all ranks; nil: nothing does. Both may be the same.
	// They may block: see Output.
	Stdout, Stderr io.Writer

	// Color marks the names of replicas before their lines with colours.
	Color bool

	// LogDir, if not empty, is where each rank has a log of each start, in
	// LogDir/JOB/replica-0/attempt-0/rank-0.log. Then nothing goes to Stdout and Stderr,
	// unless Tee is set.
	LogDir string
	Tee    bool

	// CUDADevices are the GPUs of this host, as CUDA_VISIBLE_DEVICES has them. Each replica
	// is told of as many as it has ranks, so that LOCAL_RANK names one of its own, and so is each
	// spare, which keeps them as a replica. Empty: all see all.
	CUDADevices []string

	// Steps tells what a lighthouse elsewhere shows of the job's replicas; nil: RefillSteps
	// is of no use. Of a lighthouse of this process it is not asked.
	Steps func(ctx context.Context) ([]Seen, error)

	// Wanted asks the lighthouse how many replicas are wanted, again and again while Run runs,
	// and this launcher starts or drains what makes its share of them. Where that is 0, Run
	// waits until there is one, the job has finished, or WaitLimit is over. nil: Scale alone says the number.
	Wanted func(ctx context.Context, q Query) (Wanted, error)

	// WaitLimit is how long a launcher without a share waits while no replica of the job is there,
	// or no lighthouse answers that knows the job. 0 means five minutes.
	WaitLimit time.Duration

	// Log is told what is started, what ended and why. Its writer must not block.
	Log zerolog.Logger
}

// Seen is one replica as a lighthouse shows it.
type Seen struct {
	ReplicaID string
	Step      int64
	Trains    bool // it takes part, and does not heal
}

// Query is what a launcher asks a lighthouse: how many replicas are wanted.
type Query struct {
	Lighthouse []string // where to ask, host:port
	SeenMs     int64    // AtMs of the last answer; 0: there was none
	Hold       time.Duration
}

// Wanted is the answer. It comes at once if it is another than the one that was seen, else after
// Query.Hold.
type Wanted struct {
	Replicas int   // of the job, all launchers together
	AtMs     int64 // rises with each order; 0: no number was asked for
	Finished bool  // all replicas of the job have left in good order
	Idle     bool  // none is there, and it has not finished
}

// Defaults of Config.
const (
	DefaultRefillSteps = 100
	DefaultRefillAfter = 10 * time.Minute
	DefaultGrace       = 30 * time.Second
	DefaultKillGrace   = 5 * time.Second
	defaultWaitLimit   = 5 * time.Minute
	defaultJob         = "default"
)

// withDefaults fills in what is zero.
func (c Config) withDefaults() Config {
	c.Job = cmp.Or(c.Job, defaultJob)
	c.Replicas = cmp.Or(c.Replicas, 1)
	c.Ranks = cmp.Or(c.Ranks, 1)
	c.Nodes = cmp.Or(c.Nodes, 1)
	c.MinReplicas = cmp.Or(c.MinReplicas, 1)
	c.RefillSteps = cmp.Or(c.RefillSteps, DefaultRefillSteps)
	c.RefillAfter = cmp.Or(c.RefillAfter, DefaultRefillAfter)
	c.Grace = cmp.Or(c.Grace, DefaultGrace)
	c.KillGrace = cmp.Or(c.KillGrace, DefaultKillGrace)
	c.WaitLimit = cmp.Or(c.WaitLimit, defaultWaitLimit)
	c.Listen = cmp.Or(c.Listen, layout.Loopback+":0")
	return c
}

// Validate returns all problems of a configuration, each as "Field = value, want bound". That
// the command can be run is looked for, too.
func (c Config) Validate() error {
	c = c.withDefaults()
	var l problems.List
	if len(c.Command) == 0 || c.Command[0] == "" {
		l.Want(false, "Command", c.Command, "a program, and its arguments")
	} else if _, err := exec.LookPath(c.Command[0]); err != nil {
		l.Add(&CommandError{c.Command[0], err})
	}
	l.Want(lighthouse.CheckJob(c.Job) == nil, "Job", c.Job, "at most 128 letters, digits, '.', '_' or '-'")
	problems.Within(&l, "Ranks", c.Ranks, 1, maxProcesses)
	problems.Within(&l, "Replicas", c.Replicas, 1, maxProcesses/max(c.Ranks, 1))
	problems.Within(&l, "Spares", c.Spares, 0, max(maxProcesses/max(c.Ranks, 1)-c.Replicas, 0))
	problems.Within(&l, "Nodes", c.Nodes, 1, maxNodes)
	problems.Within(&l, "Node", c.Node, 0, max(c.Nodes, 1)-1)
	problems.Within(&l, "MaxRestarts", c.MaxRestarts, 0, maxRestarts)
	problems.Within(&l, "MinReplicas", c.MinReplicas, 1, max(c.Replicas, 1))
	problems.NotNegative(&l, "RefillSteps", c.RefillSteps)
	problems.NotNegative(&l, "RefillAfter", c.RefillAfter)
	problems.NotNegative(&l, "Grace", c.Grace)
	problems.NotNegative(&l, "KillGrace", c.KillGrace)
	problems.NotNegative(&l, "WaitLimit", c.WaitLimit)
	l.Want(c.Nodes <= 1 || len(c.Lighthouse) > 0, "Lighthouse", c.Lighthouse, "the address of one that all %d nodes reach: start it by skerry lighthouse", c.Nodes)
	l.Want(len(c.CUDADevices) == 0 || len(c.CUDADevices) >= (c.Replicas+c.Spares)*c.Ranks, "CUDADevices", c.CUDADevices,
		"one for each of %d ranks", (c.Replicas+c.Spares)*c.Ranks)
	return l.Err()
}

// CommandError says that a command cannot be run at all.
type CommandError struct {
	Program string
	Err     error
}

func (e *CommandError) Error() string {
	return fmt.Sprintf("Command = %q cannot be run, want a program in PATH, or its path: %v", e.Program, e.Err)
}

// Unwrap gives the operating system's error.
func (e *CommandError) Unwrap() error { return e.Err }

// plan is what is the same for all starts; addresses are the lighthouse's.
func (c Config) plan(addresses []string) layout.Plan {
	return layout.Plan{
		Job: c.Job, Ranks: c.Ranks, Nodes: c.Nodes, Node: c.Node, MaxRestarts: c.MaxRestarts,
		Lighthouse: addresses, TLS: c.Guard.TLSCA != "", CUDADevices: c.CUDADevices,
	}
}
