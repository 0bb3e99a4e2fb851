//go:build !skerry_nofence

package cluster

// Fenced says that an answer which is told again is told only after a check of
// leadership, and that a command which follows another quorum than the ledger's, or
// is of an older term, is refused. It is false in one build alone, which tests
// catch: TestStaleLeader in test/history for the first, TestTwoQuorumsAfterOne for
// the second.
const Fenced = true
