//go:build !skerry_nofence

package lighthouse

// fenced says that an answer which is told again is told only after a check of
// leadership, and that a command which follows another quorum than the ledger's is
// refused. It is false in one build alone, with which test/history shows that it
// would notice.
const fenced = true
