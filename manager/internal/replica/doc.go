// Package replica is what a replica has once, in the process of group rank 0: the
// server through which its ranks act as one towards the lighthouse, the store in which
// its process groups meet, and the session.
//
// Each rank reports what it knows and waits for the next quorum, and votes on each
// attempt and waits for the replica's decision. The server makes one join of all
// reports (quorum.MergeReports), and one decision of all votes (quorum.Polls): both
// rules are package quorum's. A rank reaches it by a [Link]: in the same process by
// Replica.Link, from the others by a [Remote], whose calls can be repeated.
//
//	replica.go  the room: what is listened on, who runs, what the rank beside it calls
//	server.go   reports: from all ranks' reports to one join, and its answer to all
//	votes.go    votes: one decision per attempt
//	notify.go   notices to the ranks, and group rank 0's own link
//	ranks.go    the links of the other ranks, and the end of a replica that lost one
//	rpc.go      skerry.v1.Manager, for ranks, peers that heal, and operators
//	remote.go   the link of the ranks other than 0
//	access.go   who may call what, and how much it may take
//
// Run owns all goroutines, and has waited for each of them when it returns. The one
// lock is server.mu; nothing is called out to with it held.
package replica
