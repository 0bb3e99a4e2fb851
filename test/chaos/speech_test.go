package chaos

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/manager"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/tcp"
)

// This file and counter_test.go are compiled into an older tree, too: see programs_test.go. What
// they use must have been there.

// workerArgs is what the test tells its workers.
type workerArgs struct {
	Listen      string // lighthouse: where
	DataDir     string // lighthouse: durable if set
	Lighthouse  string // trainers: its address
	Replicas    int
	Steps       int64
	StepTime    time.Duration
	BallastMiB  int // extra state, so that a heal takes a while
	StepTimeout time.Duration
	MinReplicas int
	Verbose     bool

	Checkpoints     string // trainers: the folder that they share; "": they keep none
	CheckpointEvery int64

	DieAt   string // trainers: where this process ends itself; "": nowhere
	DieFrom int64  // from which committed step on

	StuckAfter, JoinTimeout time.Duration // lighthouse; 0: the default
	BeatTimeout             time.Duration // trainers; 0: the default

	Baby    bool // trainers: the backend runs in a child
	Guarded bool // there are certificates and a token, in the environment
	Open    bool // trainers may be reached by other hosts, and nothing guards them

	counterArgs
}

// guard is what is to be guarded by.
func (a workerArgs) guard() (g guard.Options, err error) {
	if a.Guarded {
		err = g.FromEnv()
	}
	g.Open = g.Open || a.Open
	return g, err
}

// backend is a trainer's.
func (a workerArgs) backend() (pg.Backend, error) {
	if a.Baby {
		return pg.Open("baby:tcp", pg.Options{Log: a.log()})
	}
	return tcp.New(tcp.Options{BeatTimeout: a.BeatTimeout, Logger: a.log()}), nil
}

// report is one line of JSON that a worker writes to its standard output.
type report struct {
	Kind string `json:"kind"`
	Step int64  `json:"step,omitempty"`
	Hash string `json:"hash,omitempty"`
	Addr string `json:"addr,omitempty"`
	Text string `json:"text,omitempty"`
	At   int64  `json:"at"`   // Unix nanoseconds
	Mono int64  `json:"mono"` // the same by a clock that no jump moves, and that all processes share

	Quorum  int64   `json:"quorum,omitempty"`  // of a counter's commit
	Counts  []int64 `json:"counts,omitempty"`  // how often each replica's part is in it
	Divisor int     `json:"divisor,omitempty"` // what its group says

	ReplicaID string   `json:"replica_id,omitempty"` // with formed
	Members   []string `json:"members,omitempty"`

	index       int // of the trainer; filled by the test
	incarnation int
	run         int // of a world
}

// The kinds of report.
const (
	listening   = "listening"
	committed   = "committed" // Step, Hash of the parameters after it
	discarded   = "discarded"
	formed      = "formed"   // Quorum, Members
	differed    = "differed" // Step: this replica's state was found to be another than the others'
	healStarted = "heal started"
	healed      = "healed"
	final       = "final"    // Step, Hash
	restored    = "restored" // Step
	kept        = "kept"     // Step, of a checkpoint that is written
	notKept     = "not kept" // Text
	faulty      = "faulty"   // the fault that a counter was told of is in effect from here on
)

// reporter writes reports. Safe for concurrent use.
type reporter struct {
	mu sync.Mutex
}

func (r *reporter) say(line report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	line.At = time.Now().UnixNano()
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) == nil { // this clock is always there
		line.Mono = now.Nano()
	}
	_ = json.NewEncoder(os.Stdout).Encode(line) // without a parent this process ends anyway
}

func (a workerArgs) log() zerolog.Logger {
	if !a.Verbose {
		return zerolog.New(os.Stderr).Level(zerolog.ErrorLevel)
	}
	zerolog.TimeFieldFormat = "15:04:05.000"
	return zerolog.New(os.Stderr).With().Timestamp().Int("pid", os.Getpid()).Logger()
}

func tell(out *reporter, e manager.Event) {
	switch e := e.(type) {
	case manager.QuorumFormed:
		out.say(report{Kind: formed, Quorum: e.QuorumID, Text: e.Reason, ReplicaID: e.Members[e.ReplicaRank], Members: e.Members})
	case manager.StateDiffered:
		if e.Own {
			out.say(report{Kind: differed, Step: e.Step})
		}
	case manager.StepDiscarded:
		out.say(report{Kind: discarded, Step: e.Step, Text: fmt.Sprint(e.Cause)})
	case manager.HealStarted:
		out.say(report{Kind: healStarted, Step: e.Position.Step})
	case manager.HealDone:
		out.say(report{Kind: healed, Step: e.Position.Step, Text: fmt.Sprint(e.Err)})
	}
}
