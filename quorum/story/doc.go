// Package story tells what became of a job, as operators read it: it makes a feed of
// [Told] of what the rules note ([quorum.Event]) and of what operators ask for, and one
// sentence of each entry. Page, API, command line and log render the same entries, so they say
// the same.
//
// It is pure, like the rules: no I/O, no goroutine, no lock, no clock; the time is an argument.
//
//	[Story]     a job's feed at the leader: what the ledger kept, and what is not saved yet
//	[Sentence]  an entry in words, with its cost in numbers
//
// What is too small for a feed (a suspicion that was cleared, a join, a broken stream) stays
// in the log.
package story
