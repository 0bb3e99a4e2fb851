// Package history checks what the lighthouse says against a sequential model of
// it, with Porcupine: every answer that a replica had, from when it asked to when
// it was told, must fit into one order in which ids rise (Q1), one id has one
// member list (Q2), no quorum is below min replicas (Q3) or holds a minority of
// those who were not killed (Q5) or lacks a living holder of the highest position
// known (Q10), and a contested step is settled once (C6).
//
// The histories are those of real servers in this process, joined by a raft
// transport that can be cut, while replicas are killed, servers are killed and
// started again, and leaders change; and those of the simulator. The test shows
// that it has teeth: an id that is used twice in the simulator is refused in every
// run, and the real lighthouse with the fence taken out, in a build with the tag
// skerry_nofence, is caught by make history.
//
//	go test ./test/history                       a bounded run
//	make history                                 a long one, and the build without the fence
package history
