package quorum

import "fmt"

// EventKind is the kind of an Event.
type EventKind uint8

// The events.
const (
	EventOpened EventKind = iota
	EventJoined
	EventWithdrawn
	EventBroken
	EventSuspect
	EventCleared
	EventLost
	EventReturned
	EventSuperseded
	EventStuck
	EventLeft
	EventFell
	EventFormed
	EventRepeated
	EventSettled
	EventRestored
	EventDraining
	EventEvicted
	EventConfigured
	EventPositionFell
	EventAccused
	EventApart
	EventForgotten
	EventDiverged
	EventProbation
	EventMended
	EventDoubted
	EventAway
	EventRefused
)

var eventNames = [...]string{
	"session opened", "joined", "join withdrawn", "stream broken", "suspect", "suspicion cleared",
	"lost", "returned", "superseded", "stuck", "left", "quorum fell", "quorum formed", "answer repeated",
	"step settled", "last quorum restored", "draining", "evicted", "configured", "highest position fell",
	"accused", "link kept apart", "forgotten", "committed digests differ",
	"put on probation", "link holds again", "own sight doubted", "away", "refused",
}

// String is the event's name, in the past tense.
func (k EventKind) String() string {
	if int(k) < len(eventNames) {
		return eventNames[k]
	}
	return fmt.Sprintf("event %d", uint8(k))
}

// Event is something that somebody would draw on a timeline. Logs, history
// pages and golden files show the same ones.
type Event struct {
	Kind      EventKind
	ReplicaID ReplicaID // whom it is about; empty: the quorum
	QuorumID  int64     // the last quorum's id at that time
	Text      string
}

// String is "kind replica (quorum id): text".
func (e Event) String() string {
	s := e.Kind.String()
	if e.ReplicaID != "" {
		s += " " + string(e.ReplicaID)
	}
	if e.QuorumID != 0 {
		s += fmt.Sprintf(" (quorum %d)", e.QuorumID)
	}
	if e.Text != "" {
		s += ": " + e.Text
	}
	return s
}
