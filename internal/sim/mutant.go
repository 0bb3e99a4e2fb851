package sim

import (
	"slices"

	"github.com/skerry-ft/skerry/quorum"
)

// Mutant is one rule taken out, by a fault put between the world and the code
// under test, as the explorer of package quorum does it. The zero value changes
// nothing.
type Mutant struct {
	Name string
	Want []string // the rules that may be named when it is found

	forms          []quorum.ReasonCode // reasons not to form that are overridden
	onJoin         func(*quorum.Join)
	onAnswer       func(last *quorum.Quorum, q quorum.Quorum) quorum.Quorum
	onPlan         func(*quorum.Quorum, *quorum.Assignment)
	onApply        func(*quorum.Ledger, *quorum.Formed) // before a command takes effect
	onLedger       func(*quorum.Ledger)                 // after it did
	onRestart      func(*quorum.Ledger)                 // what a new leader finds
	judge          func(own int, ballots []*quorum.Ballot) quorum.Verdict
	eager          bool // an incomplete ballot is a good one
	noVerify       bool
	noBarrier      bool
	presumesNobody bool
	keepsClaim     bool
	dropsWithdraw  bool
	takesWithdrawn bool
	anyDonor       bool
}

// Mutants are all of them.
func Mutants() []Mutant {
	return []Mutant{
		{Name: "majority", forms: []quorum.ReasonCode{quorum.ReasonNoMajority}, Want: []string{"Q5"}},
	}
}

// override forms the quorum of all who have joined, though the machine says that
// it is not time.
func (mu *Mutant) override(r *reign, d quorum.Decision) quorum.Decision {
	if !slices.Contains(mu.forms, d.Reason.Code) {
		return d
	}
	return d
}
