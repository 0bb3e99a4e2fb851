package quorum

import "fmt"

// EventKind is the kind of an Event. Its number stays within one process: logs and pages have
// the name.
type EventKind uint8

// The events. A page that is asked for tells none, for it reads a copy (advancedTo).
const (
	// What sessions and joins do (§4.1). A join that is repeated with its number and kind is
	// told once. A withdrawn one was taken back, or refused: its name is in use.
	EventOpened EventKind = iota
	EventJoined
	EventWithdrawn
	EventBroken
	// What becomes of a replica (§6). Cleared ends a suspicion, and also what made it stuck,
	// away, or refused though another one is odd; returned follows lost. Lost is by witnesses or by silence:
	// one that left by its own word, or was evicted, is told as that.
	EventSuspect
	EventCleared
	EventLost
	EventReturned
	EventSuperseded
	EventStuck
	EventLeft
	// What becomes of the quorum. Repeated is the last answer told again, without a write
	// (§4.3). Settled is a contested step alone: of one that members stand on all knew.
	// Restored says that the ledger was lost, and that members brought the last quorum back.
	EventFell
	EventFormed
	EventRepeated
	EventSettled
	EventRestored
	// What an operator did; EventEvicted also what EvictStuck did.
	EventDraining
	EventEvicted
	EventConfigured
	// C4: every holder of the highest position is gone. The job goes on behind it, and an
	// operator may have a file to start from.
	EventPositionFell
	// Links and names (Q9, §6a). Accused is a first word, not its repetition in a join or a
	// hello. Forgotten is a lost replica that leaves the status page.
	EventAccused
	EventApart
	EventForgotten
	// C1 is broken: two members committed one step with different digests.
	EventDiverged
	EventProbation
	EventMended
	// §6: the lighthouse doubts its own sight, or, by its text, no longer does.
	EventDoubted
	EventAway
	EventRefused
	// A member that was to heal has committed; and the first commit after a change, with its Change.
	EventHealed
	EventResumed
	EventFinished // the last member left, all in good order
	EventStays    // an operator took a drain back
)

// eventNames are by kind, in the order of the constants above.
var eventNames = [...]string{
	"session opened", "joined", "join withdrawn", "stream broken", "suspect", "suspicion cleared",
	"lost", "returned", "superseded", "stuck", "left", "quorum fell", "quorum formed", "answer repeated",
	"step settled", "last quorum restored", "draining", "evicted", "configured", "highest position fell",
	"accused", "link kept apart", "forgotten", "committed digests differ",
	"put on probation", "link holds again", "own sight doubted", "away", "refused",
	"healed", "resumed", "finished", "stays",
}

// String is the event's name, in the past tense.
func (k EventKind) String() string {
	// A kind without a name is shown by its number: String is called while something else is
	// being told, and never panics.
	if int(k) < len(eventNames) {
		return eventNames[k]
	}
	return fmt.Sprintf("event %d", uint8(k))
}

// Event is what a timeline shows. Logs, history pages and golden files have the same ones.
type Event struct {
	Kind      EventKind
	ReplicaID ReplicaID // whom it is about; empty: the quorum
	QuorumID  int64     // the last quorum's id at that time
	Text      string
	Cause     Cause   // of lost, left, evicted, stuck and fell
	Change    *Change // of formed, and of resumed what it came to; nil of others
	Step      int64   // of finished: the highest that was committed
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
