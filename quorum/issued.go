package quorum

import (
	"fmt"
	"slices"
	"time"
)

// idsAhead is how far above Unix milliseconds an id may be that this machine does
// not know: ids start there, and rise more slowly than milliseconds do, so this
// is how far the clock of another lighthouse may go before ours.
const idsAhead = 24 * time.Hour

// checkIssued refuses quorum ids that no lighthouse can have issued (§4.7). The next id is
// above every id that a replica names: one that named the highest there is would
// end the job, for an id above it is refused by all who read it, and by the
// ledger's floor it would end every later job of the cluster too. It is not for
// good: where the ledger was lost, and this clock is late, the ids are good, and a
// whole job would end over an operator's mistake. (In milliseconds 2^53 is 285,000 years.)
func (m *Machine) checkIssued(now time.Time, what string, ids ...int64) error {
	highest := max(m.ledger.HighestID, now.Add(idsAhead).UnixMilli())
	if id := slices.Max(ids); id > highest {
		return fmt.Errorf("%w: %s names quorum %d, want at most %d; if a lighthouse did, the clock of this one is late",
			ErrNotIssued, what, id, highest)
	}
	return nil
}

// newestID is the highest id that a last answer names.
func (l *LastAnswer) newestID() int64 {
	if l == nil {
		return 0
	}
	id := l.QuorumID
	for _, m := range l.Members {
		id = max(id, m.Position.QuorumID)
	}
	if p := l.Part; p != nil {
		id = max(id, p.Self.Position.QuorumID, p.Max.QuorumID)
	}
	return id
}
