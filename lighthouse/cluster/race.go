//go:build race

package cluster

// raceDetector says that this is a build for the race detector. raft 1.8.0 reads
// a peer's id while it replicates to it, without the lock under which another
// goroutine writes the peer's new address (and the same id again). That harms
// nobody, but the detector ends the test. So such a build leaves old addresses in
// raft; servers are reached by what gossip says of their ids all the same.
const raceDetector = true
