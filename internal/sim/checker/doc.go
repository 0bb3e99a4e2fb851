// Package checker judges a simulated world from outside the code under test.
//
// The world tells a [Checker] what was written, told, promised, held and committed
// anywhere, and each leader's [Book] what that leader has heard. They have types and
// notes of their own, made from quorum's field by field ([Position], [StepName]), and
// never ask the code under test whether it is right: what they know is true of the
// whole world, whatever its members believe. They say which rule of docs/PROTOCOL.md
// is broken through [World].Fail. A method is named by what has happened
// ([Checker.Committed], [Book.Joined]), and is called when it has.
//
//	checker.go           Q1, Q2, C1 to C3, C5 to C7: what is true of the world
//	lines.go             C1 at rest: bits that flip in a state
//	book.go, formed.go   Q3 to Q5, Q7 to Q10, C4, C6, newcomers that Q6 refuses, and that
//	                     no replica is lost without a witness: what one leader was told
//	observation.go       their words for what they are told
//
// That progress is made in time (Q6, L1) is the world's own to judge, in package sim: it
// is about what does not happen.
//
// # Data flows one way
//
// Nothing here imports the simulator, draws, waits or changes what it is told; the
// only words back are Fail, and what a world asks for: [Checker.Floor], [Checker.Newest],
// [Checker.Totals] and [Checker.History]; of a book what a mutant, which forms quorums by
// itself, and an operator need.
//
// # Concurrency
//
// A checker and its books belong to the goroutine of their world.
package checker
