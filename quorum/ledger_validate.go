package quorum

import (
	"cmp"
	"fmt"
)

// maxReasonBytes bounds a reason in the ledger. Each of its few lists names maxNamed replicas
// of 256 bytes.
const maxReasonBytes = 64 << 10

// Validate says what in a ledger that was read is not what a ledger can hold: a
// value is named with its bound. It is for snapshots, which come from a disk or
// from another server; what the Apply… methods leave is valid. (A bad one that was taken
// up would make a rule panic at the leader, and at each leader after it.)
//
// It is about what a rule leans upon: sizes, numbers, sorted members, an id below the floor. That
// a step is settled once, or that participants are members, is kept where it is written.
func (l *Ledger) Validate() error {
	if err := cmp.Or(validateBytes("Cluster", l.Cluster, MaxIDBytes), validateBytes("Job", l.Job, MaxIDBytes)); err != nil {
		return err
	}
	// §1: with a third kind, and a last quorum, the job would refuse every client (accepts).
	if l.Client > KindTorchft {
		return invalidf("its Client = %d, want at most %d", l.Client, KindTorchft)
	}
	// §4.7: above MaxStep there is no next id: the job would form no quorum any more.
	if err := validateNumber("HighestID", l.HighestID); err != nil {
		return err
	}
	if l.Last != nil {
		if err := validateQuorum(l.Last); err != nil {
			return fmt.Errorf("last quorum: %w", err)
		}
		// Q1: the next id would be one that was used.
		if l.Last.ID > l.HighestID {
			return invalidf("its HighestID = %d, want at least Last's, %d", l.HighestID, l.Last.ID)
		}
	}
	// New panics at rules that contradict each other; here the snapshot is refused instead.
	if l.Config != nil {
		if err := l.Config.Validate(); err != nil {
			return fmt.Errorf("%w: its config: %w", ErrInvalid, err)
		}
	}
	// The lists are as long as appendBounded leaves them. A longer one was not written by this
	// code, and none of the rules has to bear more.
	return cmp.Or(
		validateEach("Settled", l.Settled, MaxSettled, validateSettlement),
		validateEach("Drained", l.Drained, MaxGone, validateGone),
		validateEach("Evicted", l.Evicted, MaxGone, validateGone),
		validateEach("History", l.History, MaxHistory, validateHistory),
	)
}

// validateEach checks a list of the ledger: its length, then each entry, and names the first
// that is wrong by its index.
func validateEach[T any](what string, list []T, most int, validate func(*T) error) error {
	if len(list) > most {
		return invalidf("%s has %d entries, want at most %d", what, len(list), most)
	}
	for i := range list {
		if err := validate(&list[i]); err != nil {
			return fmt.Errorf("%s[%d]: %w", what, i, err)
		}
	}
	return nil
}

func validateGone(id *ReplicaID) error { return validateID("replica id", *id) }

// validateQuorum checks a quorum as a ledger has it.
func validateQuorum(q *Quorum) error {
	// Q1 is checked where the id has something to rise above: by Validate and ApplyFormed.
	if err := cmp.Or(
		validateBytes("Cluster", q.Cluster, MaxIDBytes), validateBytes("Job", q.Job, MaxIDBytes),
		validateNumber("ID", q.ID), validateNumber("Round", q.Round),
	); err != nil {
		return err
	}
	// §4.3: the ledger has whole lists; a view is what one member was told.
	if q.View != nil {
		return invalidf("a view stands for the members")
	}
	// Q3: it is never empty. One of more no machine forms: capped leaves MaxMembers at most.
	if len(q.Members) == 0 || len(q.Members) > MaxMembers {
		return invalidf("quorum of %d members, want 1 to %d", len(q.Members), MaxMembers)
	}
	for i := range q.Members {
		if err := boundMember(&q.Members[i]); err != nil {
			return fmt.Errorf("its Members[%d]: %w", i, err)
		}
		// Ranks are indexes, and members are found by bisection: unsorted, one would be another.
		if i > 0 && q.Members[i-1].ReplicaID >= q.Members[i].ReplicaID {
			return invalidf("its Members[%d]: %q does not come after %q", i, q.Members[i].ReplicaID, q.Members[i-1].ReplicaID)
		}
	}
	// §2.2: their number is the divisor, so they are no more than the members.
	if err := validateEach("Participants", q.Participants, len(q.Members), validateGone); err != nil {
		return err
	}
	if err := validateSettlement(&q.Settlement); err != nil {
		return fmt.Errorf("its settlement: %w", err)
	}
	return validateBytes("Reason", q.Reason, maxReasonBytes)
}

func validateSettlement(s *Settlement) error {
	if s.Outcome > Discard {
		// C6: what the ledger says of a step binds for good, so no rule may meet an outcome
		// that it does not know.
		return invalidf("its Outcome = %d, want at most %d", s.Outcome, Discard)
	}
	return cmp.Or(validateNumber("Step", s.Step), validateNumber("QuorumID", s.QuorumID), validateDigests("Digests", s.Digests))
}

// validateHistory checks what is shown to people. Only its sizes count, and its names: pages
// print it, and no rule reads it.
func validateHistory(h *HistoryEntry) error {
	for _, list := range [][]ReplicaID{h.Members, h.Joined, h.Left} {
		if err := validateEach("replicas", list, MaxHistoryNames, validateGone); err != nil {
			return err
		}
	}
	if err := validateSettlement(&h.Settlement); err != nil {
		return fmt.Errorf("its settlement: %w", err)
	}
	if len(h.Accusations) > MaxHistoryNames {
		return invalidf("its Accusations has %d entries, want at most %d", len(h.Accusations), MaxHistoryNames)
	}
	return validateBytes("Reason", h.Reason, maxReasonBytes)
}
