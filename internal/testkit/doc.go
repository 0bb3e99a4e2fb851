// Package testkit is what the tests of many packages share: waits for a condition,
// a log that can be read while it is written, programs in processes of their own, and
// whether the race detector is in the build.
//
// A program is run by Program, but for two kinds: a worker, which is the test's own binary
// run again, by train/spawn (test/chaos, test/failover, test/gpu and test/integration's mesh
// and links, of which the last has pipes with deadlines too); and what is run to its end for
// one answer (ip, kubectl, go env), by exec.Cmd.
//
// Every wait is bounded by Patience, or by less that its test names. Patience is far
// longer than any wait takes, for a test that fails because the machine is busy says
// nothing; how fast something is, the benchmarks measure.
package testkit
