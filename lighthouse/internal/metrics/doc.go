// Package metrics is what a lighthouse server shows to Prometheus.
//
// A series is named by Prometheus' conventions: skerry_lighthouse_, the thing, its unit,
// and _total for what only rises. The only label that has no closed set of values is job;
// the server bounds how many jobs there are (Config.MaxJobs), and the series of a job that
// is forgotten go with it: on the leader at once, on a server that no longer leads at the
// next scrape.
//
//	metrics.go  the series that the server counts by itself
//	jobs.go     what is counted for each job, and what its faults cost: from the events of the rules
//	scrape.go   what is read when the server is scraped: jobs, raft
//
// Everything is safe for concurrent use, and starts no goroutine.
package metrics
