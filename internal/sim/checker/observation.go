package checker

import (
	"fmt"

	"github.com/skerry-ft/skerry/quorum"
)

// This file is the checkers' own words for what they are told, and how they are made
// from quorum's: field by field, by none of its rules.

// Answer numbers what the lighthouse says.
type Answer struct{ ID, Round int64 }

func (a Answer) less(b Answer) bool { return a.ID < b.ID || a.ID == b.ID && a.Round < b.Round }

// Position is where a replica stands: its step, and the quorum that committed it. All
// of a world's have one cluster.
type Position struct{ Step, QuorumID int64 }

// PositionOf is what the checkers keep of a position.
func PositionOf(p quorum.Position) Position { return Position{p.Step, p.QuorumID} }

// Above orders positions by step, then by quorum.
func (p Position) Above(o Position) bool {
	return p.Step > o.Step || p.Step == o.Step && p.QuorumID > o.QuorumID
}

// StepName is one attempt at a step. Try counts those before it in one quorum and
// round, which stood on when the step was discarded.
type StepName struct{ QuorumID, Round, Step, Try int64 }

// op is the name of an operation; members that are behind do not know the step.
func (s StepName) op() StepName { return StepName{QuorumID: s.QuorumID, Round: s.Round, Try: s.Try} }

// Release is a quorum that is told to those whose joins it answers.
type Release struct {
	Decided int64  // when the leader decided
	At      int64  // when it tells it
	Floor   Answer // the newest that the ledger held when it decided
	Changed bool
	Server  int
	Quorum  *quorum.Quorum
	Answers []quorum.Answered
}

// Observation is one quorum that took effect, or that a server told: between Began
// and Ended it was decided and confirmed. Or it is that a leader no longer counts a
// replica as live. Times are nanoseconds of the world.
type Observation struct {
	Began, Ended int64
	Server       int
	Gone         string // who is no longer live; then the rest is empty
	QuorumID     int64
	Round        int64
	Members      []string
	At           []Position // of the members
	Settled      []Settled
}

// Settled is what became of a contested step.
type Settled struct {
	Position
	Forward bool
	Digests string
}

// formedView is a quorum as the checkers keep it.
type formedView struct {
	Answer
	members []string
	at      []Position // where the members stand, by rank
	settled []Settled
}

func (f *formedView) top() Position {
	var top Position
	for _, p := range f.at {
		if p.Above(top) {
			top = p
		}
	}
	return top
}

// observed is what a quorum says.
func (f *formedView) observed() Observation {
	return Observation{QuorumID: f.ID, Round: f.Round, Members: f.members, At: f.at, Settled: f.settled}
}

// viewOf is what the checkers keep of a command.
func viewOf(f quorum.Formed) formedView {
	q := &f.Quorum
	v := formedView{Answer: Answer{q.ID, q.Round}, members: make([]string, len(q.Members)), at: make([]Position, len(q.Members))}
	for i, m := range q.Members {
		v.members[i], v.at[i] = string(m.ReplicaID), PositionOf(m.Position)
	}
	for _, s := range append(f.Settled[:len(f.Settled):len(f.Settled)], q.Settlement) {
		if s.Outcome != quorum.NothingToSettle {
			v.settled = append(v.settled, Settled{Position{s.Step, s.QuorumID}, s.Outcome == quorum.Forward, fmt.Sprint(s.Digests)})
		}
	}
	return v
}

// viewOfQuorum is what they keep of a quorum that is decided, told or taken.
func viewOfQuorum(q *quorum.Quorum) formedView { return viewOf(quorum.Formed{Quorum: *q}) }
