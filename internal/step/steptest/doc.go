// Package steptest takes code that is written with package step through the
// interleavings of its accesses: [Explore] through all of them, [Jitter] through
// some, at random, in programs that run as usual.
//
// # How Explore works
//
// The code under test runs as it is, goroutine by goroutine, never two at once.
// What a goroutine does between two accesses depends on nothing but what it has
// read, so it is enough to run each of them once for each value that it can meet: that
// gives, per goroutine, an automaton whose edges say "having read this, it wrote
// that and will access the other next". The interleavings are then those of the
// automata, which needs no running: some million states a second.
//
// For that, all memory that goroutines share must be known to the World: as atomics
// ([World.Var]), as what a mutex guards ([World.Mutex]), or as what is read and
// changed in one step of the test's own making ([World.Group]). Where a goroutine comes
// round to the head of its loop, with nothing in mind of the rounds before, it
// says so ([World.Idle]), which keeps its automaton small.
//
// States are told apart by hashes of 64 bits: among ten million states the chance
// that two are taken for one is one in 400,000.
package steptest
