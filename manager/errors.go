package manager

import (
	"errors"

	"github.com/skerry-ft/skerry/manager/internal/final"
)

// The sentinels of this package, one per decision the caller can take.
var (
	// ErrDrained is returned by StartQuorum and ShouldCommit after Drain, once
	// the others go on without this replica. Exit with status 0.
	ErrDrained = final.ErrDrained
	// ErrEvicted is returned by StartQuorum and ShouldCommit after an operator
	// or a policy took this replica out. A new process may join again.
	ErrEvicted = final.ErrEvicted
	// ErrRefused is returned by StartQuorum and ShouldCommit, joined with the
	// reason, when the lighthouse refuses this replica for good: its name is in
	// use, its settings differ from the others', its token or certificate was never
	// good for a session. Asking again cannot help.
	ErrRefused = final.ErrRefused
	// ErrRankLost is returned by StartQuorum and ShouldCommit when another rank
	// of this replica is gone: its process died, or closed its Manager. The other
	// replicas go on without this one. Restart all ranks of the replica together.
	ErrRankLost = final.ErrRankLost
	// ErrDiffered is returned by StartQuorum and ShouldCommit when states differed, and
	// Config.OnDiffering has it that this replica, or the job, ends then. What to look for
	// is in the log. Restart the replica: it heals; a job that was stopped goes on from a
	// checkpoint that is older than the difference.
	ErrDiffered = final.ErrDiffered
	// ErrMaxRetries is returned by ShouldCommit when Config.MaxRetries steps in
	// a row were discarded.
	ErrMaxRetries = errors.New("manager: too many discarded steps in a row")
	// ErrStateLost is returned by StartQuorum with Config.HealInPlace, when all that this
	// replica was healing from are gone, and its tensors hold parts of their states over
	// its own. Start the process anew: it begins as it did, from a file or without.
	ErrStateLost = errors.New("manager: the state is lost, in part overwritten by those who are gone")
	// ErrUnreachable is returned by the first StartQuorum of a process when no
	// lighthouse server could be reached. Later on the manager waits instead.
	ErrUnreachable = final.ErrUnreachable

	// ErrAstray is returned by StartQuorum of a replica that listens on loopback and
	// was put together with one of another host, once that shows: neither can ever
	// reach the other. Correct Config.Lighthouse or Listen and start again.
	ErrAstray = errors.New("manager: out of the others' reach")
	// ErrStepFailed is returned by WaitParticipants for a step that will be
	// discarded whatever the trainer does: go on with ShouldCommit.
	ErrStepFailed = errors.New("manager: the step is lost already")
	// ErrStepOpen is returned by StartQuorum if the step before has issued operations
	// and no ShouldCommit ended it. It has ended now, discarded: go on with
	// StartQuorum.
	ErrStepOpen = errors.New("manager: StartQuorum without ShouldCommit")
	// ErrNotRunning is returned by StartQuorum if Run is not called within Timeouts.Connect: each
	// Manager wants a `go m.Run(ctx)` before its first step.
	ErrNotRunning = errors.New("manager: Run has not been called: `go m.Run(ctx)` before the first step")
	// ErrClosed is returned by calls after Close, and after Run has ended.
	ErrClosed = final.ErrClosed
)

// Causes of discarded steps and aborted groups; they reach the user wrapped in
// events and in Errored.
var (
	errTooFew   = errors.New("too few participants")
	errFallen   = errors.New("quorum fell")
	errLost     = errors.New("member lost")
	errLeft     = errors.New("member left")
	errSibling  = errors.New("another rank of this replica broke its group")
	errNoQuorum = errors.New("no quorum in time")
	errVoid     = errors.New("operations of this step were lost with their quorum")
)
