// Package testkit is what the tests of many packages share: waits for a condition,
// a log that can be read while it is written, programs in processes of their own, and with
// wall clocks that can be made to jump, whether the race detector is in the build, and
// whether all rows of large tables are asked for.
//
// A program is run by Program. What is not has its reason:
//
//   - A worker is the test's own binary run again, and train/spawn starts, ends and names it:
//     test/chaos, test/failover, test/conformance, test/gpu, test/integration's mesh and links,
//     pg/tcp, pg/baby, cmd/skerry.
//   - What is run to its end for one answer needs no more than exec.Cmd: ip, fsck, kubectl,
//     go env, gcc, a certificate of lighthouse ca, PyTorch's ranks in test/gpu.
//   - store's test asks PyTorch's server for a port by one line, and for the next one by
//     another, from several goroutines.
//
// Every wait is bounded by Patience, or by less that its test names. Patience is far
// longer than any wait takes, for a test that fails because the machine is busy says
// nothing; how fast something is, the benchmarks measure.
package testkit
