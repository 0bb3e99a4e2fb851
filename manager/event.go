package manager

import (
	"fmt"
	"strings"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// Event is something that happened, for progress bars, logs and tests. Its
// concrete types are those of this file.
type Event interface {
	fmt.Stringer
	event()
}

// QuorumFormed says that an answer came: this replica is in a quorum.
type QuorumFormed struct {
	QuorumID, Round int64
	Members         []string // replica ids in rank order
	Participants    int      // the divisor
	ReplicaRank     int
	ParticipantRank int // -1: this replica heals, or is a spare
	Settled         quorum.Outcome
	Reason          string
	Took            time.Duration // from the wish to the answer
}

// Configured says that the process group is ready for a quorum.
type Configured struct {
	QuorumID int64
	Took     time.Duration
}

// GroupBroken says that the standing quorum fell, as this rank saw it first.
type GroupBroken struct {
	QuorumID int64
	Step     int64
	Cause    error
}

// PeerLost says that the lighthouse or a link found a member dead.
type PeerLost struct {
	QuorumID  int64
	ReplicaID string
	Why       string
}

// HealStarted says that this rank fetches a state.
type HealStarted struct {
	QuorumID int64
	Position quorum.Position // of the state
	Sources  []string        // replica ids, the one asked first is first
}

// StateCopied says that this rank has copied what it could of a state before it
// joins, while the others went on.
type StateCopied struct {
	Position quorum.Position // of the sources when it began
	Bytes    int64           // that travelled
	Rounds   int
	Took     time.Duration
	Err      error
}

// HealDone says that the state was taken over, or why not.
type HealDone struct {
	QuorumID int64
	Position quorum.Position
	Bytes    int64 // that travelled: what was there already did not
	Took     time.Duration
	Err      error
}

// HealServed says that members of a quorum heal from this rank, among others.
type HealServed struct {
	QuorumID int64
	Position quorum.Position
	Targets  []string
}

// StateDiffered says that a comparison of states at rest found replicas whose bytes
// are not those of the others. The step is discarded, and they heal.
type StateDiffered struct {
	QuorumID    int64
	Step        int64    // that is discarded
	Replicas    []string // whose state differed
	Slice       quorum.Slice
	First, Last string // tensors of the slice
	Majority    bool   // the others are a majority; else the first replica's state was taken for right
	Own         bool   // this replica is one of them
	Again       bool   // and was before: a heal does not help
}

// StepCommitted says that a step counts.
type StepCommitted struct {
	Step         int64 // after the commit
	QuorumID     int64
	Participants int
	Settled      bool // by the lighthouse, after a ballot that broke half-way
}

// StepDiscarded says that the attempt of a step was thrown away.
type StepDiscarded struct {
	Step     int64 // that it would have become
	QuorumID int64
	Settled  bool
	Cause    error
}

// LighthouseLost and LighthouseFound tell of the session.
type (
	LighthouseLost  struct{ Cause error }
	LighthouseFound struct{ Address string }
)

// Draining says that this replica finishes its step and leaves, and Stays that an operator
// took that back.
type (
	Draining struct{ Reason string }
	Stays    struct{ Reason string }
)

func (QuorumFormed) event()    {}
func (Configured) event()      {}
func (GroupBroken) event()     {}
func (PeerLost) event()        {}
func (HealStarted) event()     {}
func (StateCopied) event()     {}
func (HealDone) event()        {}
func (HealServed) event()      {}
func (StateDiffered) event()   {}
func (StepCommitted) event()   {}
func (StepDiscarded) event()   {}
func (LighthouseLost) event()  {}
func (LighthouseFound) event() {}
func (Draining) event()        {}
func (Stays) event()           {}

func (e QuorumFormed) String() string {
	return fmt.Sprintf("quorum %d round %d formed: %d members, %d participants: %s",
		e.QuorumID, e.Round, len(e.Members), e.Participants, e.Reason)
}

func (e Configured) String() string {
	return fmt.Sprintf("group configured for quorum %d in %v", e.QuorumID, e.Took)
}

func (e GroupBroken) String() string {
	return fmt.Sprintf("quorum %d fell at step %d: %v", e.QuorumID, e.Step, e.Cause)
}

func (e PeerLost) String() string {
	return fmt.Sprintf("%s of quorum %d lost: %s", e.ReplicaID, e.QuorumID, e.Why)
}

func (e HealStarted) String() string {
	return fmt.Sprintf("heal to step %d of quorum %d started, %d sources",
		e.Position.Step, e.Position.QuorumID, len(e.Sources))
}

func (e StateCopied) String() string {
	s := fmt.Sprintf("%d bytes of about step %d copied before joining in %v", e.Bytes, e.Position.Step, e.Took)
	if e.Err != nil {
		s += fmt.Sprintf(", not all: %v", e.Err)
	}
	return s
}

func (e HealDone) String() string {
	if e.Err != nil {
		return fmt.Sprintf("heal to step %d not done after %v: %v", e.Position.Step, e.Took, e.Err)
	}
	return fmt.Sprintf("healed to step %d in %v, %d bytes", e.Position.Step, e.Took, e.Bytes)
}

func (e HealServed) String() string {
	return fmt.Sprintf("state of step %d served to %d targets", e.Position.Step, len(e.Targets))
}

func (e StateDiffered) String() string {
	s := fmt.Sprintf("state of %s differed before step %d in quorum %d: %s",
		strings.Join(e.Replicas, ", "), e.Step, e.QuorumID, e.where())
	if !e.Majority {
		s += "; none are a majority, the first of those who differ was taken for right"
	}
	if e.Again {
		s += "; again after a heal, look for " + againAdvice
	}
	return s
}

func (e StepCommitted) String() string {
	return fmt.Sprintf("step %d committed in quorum %d by %d participants", e.Step, e.QuorumID, e.Participants)
}

func (e StepDiscarded) String() string {
	return fmt.Sprintf("step %d discarded in quorum %d: %v", e.Step, e.QuorumID, e.Cause)
}

func (e LighthouseLost) String() string { return fmt.Sprintf("lighthouse lost: %v", e.Cause) }

func (e LighthouseFound) String() string { return "lighthouse found at " + e.Address }

func (e Draining) String() string { return "draining: " + e.Reason }
func (e Stays) String() string    { return "drain taken back: " + e.Reason }
