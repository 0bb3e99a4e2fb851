// Package sim runs one job in virtual time: a lighthouse around the production
// [quorum.Machine], and replicas that behave as docs/PROTOCOL.md §2 to §5 has
// them behave, with the production Tally, JudgeBallots and Assign. One seed
// draws the whole world: how many replicas and ranks, how slow the network,
// which faults and when.
//
// # Two phases
//
// In the first, faults happen: crashes loud and silent, pauses, cut sessions,
// cut links between replicas, odd reductions, trainers that give up, leaders
// that start again with nothing but the ledger. Checkers outside the code under
// test watch C1, C5, C6 and Q1 to Q5 at every commit, heal and decision. In the
// second all faults are over, whoever is dead has been restarted, and within a
// bounded time all replicas must train together (Q6).
//
// # What is left out
//
// Healing is a message, not a transfer. Raft is one server whose ledger never
// fails. quorum's explorer covers small worlds exhaustively; this package
// covers large ones at random, with delays and losses that the explorer folds
// into single moves.
//
// # Concurrency
//
// None: everything runs in the caller's goroutine, one event at a time. The
// same seed gives the same run.
package sim
