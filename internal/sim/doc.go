// Package sim runs a job in virtual time, one world from each seed: lighthouse
// servers with elections (package raft), each with a shell around the production
// [quorum.Machine] while it leads, and replicas whose ranks are the production
// [quorum.Rank], each with a trainer of its own and a shell that calls it as manager's
// does. docs/SIMULATION.md tells how to run it and how to read a trace.
//
// # Usage
//
//	r := sim.Run(seed, sim.Settings{})        // r.Err: the rule that was broken
//	r := sim.Shrink(seed, sim.Settings{})     // the same with fewer faults, and a trace
//	for _, m := range sim.Mutants() { … }     // rules to take out: Settings.Mutant
//	r := sim.Run(seed, sim.Settings{Cause: "hang"}) // one of Causes alone; gaps between commits are judged
//
// # Two phases
//
// In the first, the faults of the seed's list strike, and package checker, outside
// the code under test, watches Q1 to Q5, Q7 to Q10 and C1 to C7. In the second
// all is mended, and a step must be committed in time, and all replicas must
// train together (Q6).
//
// In the world of a cause (see [Causes]) one thing alone goes wrong, mostly for ever:
// a trainer hangs, a newcomer calls other collectives, a link is cut. As long as
// enough others reach each other, by what is true of them, somebody commits: within
// 5 s, and from the third minute on within 0.5 s (L1).
//
// # What is left out
//
// Healing is a message, not a transfer. The servers are the same for the whole of
// a run, and their disks do not fail. quorum's explorer covers small worlds
// exhaustively; this package covers large ones at random, with delays and losses
// that the explorer folds into single moves.
//
// # Concurrency
//
// A run is owned by its caller's goroutine, one event at a time; runs share nothing.
// The same seed gives the same run.
package sim
