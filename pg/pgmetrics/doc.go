// Package pgmetrics shows the ops of process groups to Prometheus.
//
//	m := pgmetrics.New(registry)
//	b := observe.New(tcp.New(tcp.Options{}), m.Observer("dp"))
//
// or, for all groups of a world, as debug.Config.Observer. A group that has
// no observer pays nothing; with one an op costs two updates of atomic counters
// and no allocation.
package pgmetrics
