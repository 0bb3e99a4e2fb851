// Package raft is a small raft for simulated servers: elections, a log that survives a
// crash, leases, and checks of leadership. The set of servers is fixed, and disks do
// not fail. It is written for worlds in virtual time, in which a server can be slow,
// late, cut off or dead; what the lighthouse runs in production is lighthouse/cluster.
//
// A [Group] has a [Server] for each [Host]: the process that the server runs in, with
// its clock, its network and what it replicates. A server calls its host, and is called
// by it, from one goroutine; nothing blocks, and all that waits is a callback.
//
// What is promised:
//
//   - a term has one leader, which was elected by a majority
//   - commands are applied in one order at every server, each once in the life of its data
//   - a host is told that it leads once all commands of earlier terms are applied there;
//     who has not heard a majority for a lease says so at its next heartbeat, and leads
//     no more
//   - where a check of leadership ends well, the server led at some moment after the call
package raft
