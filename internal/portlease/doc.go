// Package portlease leases free ports to tests and benchmarks that must know a
// port before the program that listens there is started.
//
// Listening on port 0, closing, and giving the number away does not hold: until
// the program has started, the kernel gives the same number to any outgoing
// connection or to another test of the machine. A lease is taken below the range
// from which the kernel chooses (ip_local_port_range), and is held against other
// leases of this host, by whatever process, for as long as the process lives: by
// a name in Linux's abstract socket namespace, which one process alone can bind
// and which the kernel frees when that process is gone, however it ends.
//
// A lease says nothing to programs that use fixed ports of their own; a port that
// somebody listens on is passed over.
package portlease
