// Package plan decides which fault comes next, at which time and with which victim, from
// a seed, the number of the fault and the job's present state. It is pure: no clock, no I/O,
// no goroutine. The same seed, number and state give the same fault.
//
// What may be done is decided here alone, so that a test can hold it:
//
//   - A fault that costs a member leaves at least min_replicas of the members that train,
//     unless BelowMin is set, and always one: the last one holds the only copy of the state.
//   - A victim is a member that takes part, and no other fault is under way with it.
//   - A server of the lighthouse is killed only if a majority of the voters stays.
//
// All functions are safe for concurrent use.
package plan
