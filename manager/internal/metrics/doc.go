// Package metrics is what a manager shows to Prometheus: what it counts, how long things
// took, and what became of its trainer's time.
//
// Names begin with skerry_manager_. Every series has the constant labels job and replica,
// the name of the replica group without its incarnation, so that a replica that is started
// again goes on with its series. No other label has values that are not a closed set.
//
//	metrics.go  the series, and what the manager tells of what happened
//	counts.go   what is read from the manager when it is scraped
//	clock.go    the trainer's time, by what it was spent on
//
// Everything is safe for concurrent use and starts no goroutine; the locks are leaves:
// nothing is called out to with one held.
package metrics
