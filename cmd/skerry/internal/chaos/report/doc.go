// Package report judges how a job gets over faults, and tells it: as a table, as JSON and as
// a drawing.
//
// It judges by what is true of the job, the steps that it commits, and not by what was ordered
// or by what the lighthouse says that a fault cost: that is told beside it. An Outage begins
// with a fault. It has resumed when the job commits in a quorum that the fault cannot have been
// part of: without the incarnation that was killed, or by the second step after it where the
// quorum stays. It is over when as many replicas train as before, and the fault's own time has
// passed. No step within the bound is a stall, whether a fault is under way or not.
//
// It is pure: time comes in with each Look. Recorders and Outages are owned by one goroutine.
package report
