// Package quorum holds the rules of Skerry: who may form a quorum and when,
// what becomes of a step that was cut short, who heals from whom, and how
// votes and ballots are counted. docs/PROTOCOL.md is its precise text; the
// names Q1 … Q10 and C1 … C7 are that page's invariants.
//
// # Pure
//
// The package does no I/O, starts no goroutine, takes no lock, reads no clock
// and no randomness, and imports only cmp, errors, fmt, slices, strings and
// time. Every input method takes the time in hand first; time that goes back is
// a programmer's error and panics. Same input, same output, byte for byte: so
// what runs in production runs in the simulator and in the transcripts of
// testdata.
//
// # Usage
//
// A [Machine] is one job's state at the leader. It is owned by one goroutine.
// Facts go in (Open, Beat, Heartbeat, Join, Withdraw, Accuse, Broken, Reply,
// Drain, Evict), messages to push come out of Notices, and
//
//	d := m.Decide(now)        // reads only; the status page calls it too
//	if d.Ready {
//		// shell: if d.Changed, raft.Apply(d.Command(term, token)) and wait
//		m.Form(now, d, token) // makes it so; consumes the joins it answers
//	}
//	wake at m.Wake(now)       // there is no polling tick
//
// turns them into the next [Quorum]. [Ledger] is the part that raft replicates;
// its Apply is the FSM. [New] rebuilds a machine from a ledger.
//
// [Assign] turns a quorum into what one rank has to do. [Tally] counts one
// replica's votes for one step. [JudgeBallots] judges one step's ballots of all
// members. Members, managers and the simulator use the same code.
//
// # Errors
//
// Whatever a peer can send is refused with an error (the Err… values), never a
// panic. Panics are for callers that break the contract: time that goes back,
// a decision that Form did not get from Decide.
package quorum
