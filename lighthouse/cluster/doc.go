// Package cluster is one lighthouse server's part in its cluster: it finds the
// others, founds the cluster with them or joins it, and replicates the ledger, in
// which every job's quorums are written before they are told. A server alone has a
// cluster of one. What a job is and what a quorum means is decided elsewhere: of
// package quorum it takes the Ledger and its commands.
//
// # Usage
//
//	n, err := cluster.Open(cfg) // locks the data dir, listens for raft; starts nothing
//	err = n.Start()             // opens a lone server's ledger
//	err = n.Run(ctx, leader)    // until ctx ends; nil then
//	err = n.Close()             // ends gossip and raft, gives the data dir back
//
// Service is to be registered with the server's RPC before Run: other servers find
// this one by it. Run calls leader.Establish when this server comes to lead, with the
// ledger and the term, and leader.Revoke when it no longer does. Node.Leader, Changed,
// Servers and Address answer at any time.
//
// # What it owns
//
// The data dir (the raft log, snapshots, this server's raft id, and cluster.json: what
// it promised to its cluster), raft's port and gossip's, and the goroutines below.
// The RPC port is the server's.
//
// # What is promised
//
//   - Two clusters are never founded by one set of servers: bootstrap.go has the rules.
//   - What Ledger.Apply returned nil for is on the disks of a majority, and holds
//     under every later leader. Any error but the ledger's own refusal may come of a
//     command that takes effect later.
//   - Ledger.Confirm's nil says that this server led in that term after it was called.
//   - A raft id is used by one server: data that are not what they were, or that
//     another server has a copy of, begin anew under another id (internal/datadir).
//   - Voters are changed one at a time, and only while that cannot cost the majority:
//     membership.go has the rules. Like bootstrap.go's they are a function of their
//     fields, and read no clock.
//   - What another server or a stranger sends is bounded, and read only after its
//     proof where there is a guard: raftnet.go, gossip_intake.go, state_read.go.
//
// # What blocks, and what ends it
//
// Open reads and writes the data dir. Ledger.Apply and Confirm wait for a majority,
// and end with this server's lease of the leadership, or with Close; a disk that hangs
// ends them after RaftOptions.DiskTimeout. Run, and Service's calls, end with their
// context. Close waits for writes under way, on a disk that hangs no longer than
// DiskTimeout. All else returns at once.
//
// # Goroutines
//
//	name             owns                     waits for                          ends when
//	Run              the three below          their end                          ctx ends, or one of them fails
//	Node.watch       what is known of servers gossip, raft's leader changes      ctx ends, or it was taken out
//	Node.tend        the servers in raft      gossip, a review 4 times a second  ctx ends, or it was taken out
//	terms.run        the leadership           raft's leadership changes          ctx ends, or it cannot be established
//	Node.ask         one introduction         its answer                         a second at most
//	raftStream.take  raft's listener          connections, their handshakes      Close
//	gossipTransport  gossip's port            packets and streams                Close
//	Disk.StoreLogs   one write of raft's log  the disk                           it answers; a stop waits some seconds for it
//	Disk.persist     one of raft's promises   the disk                           it answers, or raft has ended
//	Disk.End         raft's end, its files    the two above                      they have; left behind if the disk hangs
//
// plus those of raft and memberlist, which Close stops and waits for.
package cluster
