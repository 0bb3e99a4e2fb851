package manager

import "time"

// Stats counts what a Manager did since New. In steady state only Commits and
// Ballots rise.
type Stats struct {
	Joins         uint64 // joins sent to the lighthouse, asks included (group rank 0)
	Asks          uint64 // joins that asked for a change
	Unanswered    uint64 // asks withdrawn because nobody answered
	Quorums       uint64 // answers accepted
	Reconfigures  uint64 // process groups configured
	Ballots       uint64 // exchanges of ballots begun
	Commits       uint64
	Discards      uint64
	Settled       uint64 // steps that the lighthouse settled, either way
	RolledForward uint64 // of those, committed
	Heals         uint64 // states taken over
	HealsServed   uint64 // quorums in which others healed from this rank
	HealBytes     uint64 // of states that were received, so far
	Differed      uint64 // steps in which this rank's state was not that of the others
	Reconnects    uint64 // sessions opened after the first

	LastJoin        time.Duration // from the wish to the answer
	LastReconfigure time.Duration
	LastHeal        time.Duration
}
