// Package quorum holds the rules of Skerry: who may form a quorum and when,
// what becomes of a step that was cut short, who heals from whom, and how
// votes and ballots are counted. docs/PROTOCOL.md is its precise text; the
// names Q1 … Q10, C1 … C7, L1 and L3 are that page's invariants, and a § beside a case is
// its section.
//
// # Pure
//
// The package does no I/O, starts no goroutine, takes no lock, reads no clock
// and no randomness, and imports only cmp, errors, fmt, slices, strings, time, and
// what is as pure below it. Every input method takes the time in hand first; time
// that goes back is a programmer's error and panics. Same input, same output, byte
// for byte: so what runs in production runs in the simulator and in the transcripts
// of testdata.
//
// # Usage
//
// A [Machine] is one job's state at the leader. It is owned by one goroutine.
// Facts go in (Open, Beat, Heartbeat, Join, Withdraw, Accuse, Broken, Reply,
// Leave, Drain, Evict, Configure), messages to push come out of Notices, and
// after each input, and whenever the shell wakes, it does
//
//	m.Advance(now)            // lets time pass: who is silent is lost
//	d := m.Decide(now)        // reads only; Status does it too
//	if d.Ready {
//		// if d.Changed: raft.Apply(d.Command(term, token, ms)) and wait
//		q := m.Form(now, d, token, ms) // makes it so, consumes the joins it answers
//		// send q to d.Answers, before the notices
//	}
//	push m.Notices(), log m.Events()
//	wake at m.Wake(now)       // there is no polling tick
//
// Inputs may come while raft writes; another Form may not. If the write fails,
// the leader builds a new machine from the ledger with [New].
//
// [Ledger] is the part that raft replicates; its Apply… methods are the FSM.
//
// What the shell asks beside the Machine, about its own process and about many jobs, is in
// package quorum/shell.
//
// # Files
//
//	the leader decides    decide.go whether and of whom, window.go when, settle.go what becomes
//	                      of a step that was cut short, form.go makes it so; decision.go, budget.go
//	and keeps             ledger.go what raft has, ledger_delta.go its entries, issued.go ids
//	it hears              join.go, witness.go, probe.go, judge.go who is lost; incarnation.go
//	                      who takes whose place, blind.go when its own sight is in doubt, answer.go
//	                      a ledger that was lost, clock.go time
//	it leaves out         links.go, odd.go and odd_trial.go, flap.go, stuck.go and internal/pace, away.go
//	who heals             heal_plan.go, assign.go; sources.go before a join; view.go and seat.go
//	                      where the list is too long to be told
//	a member              member*.go; ballot.go, tally.go, parity.go
//	and tells             admin.go what operators want, status.go, event.go, names.go; crowd.go what
//	                      thousands are told once
//	torchft's clients     torchft.go
//
// # What a member does with an answer
//
// [Assign] turns a quorum into what one rank has to do. A member with a prepared
// claim was rolled forward if and only if its position in the answer is (its
// fact's step, its fact's quorum id), whether the answer's Settlement is about
// that step or an older answer settled it; otherwise it discards the step, and
// heals if Assign says so. A member takes its position from the answer, cluster
// included. A drained member is answered with a quorum that it is not in.
//
// [Rank] is one rank's half of all this, and drives the rest: [Claim] is its promise,
// [JudgeBallots] judges one step's ballots of all members, [Polls] counts the votes of a
// replica's ranks, each attempt's by a [Tally], and [MergeReports] makes one join of their
// reports. Managers, the simulator and the explorer use the same code.
//
// # Errors
//
// Whatever a peer can send is refused with an error (the Err… values), never a
// panic. Panics are for callers that break the contract: time that goes back,
// a decision that Form did not get from Decide.
package quorum
