// Package logkey names the fields of log lines, so that one incident can be
// read by filtering one quorum id or one replica id across all programs.
//
// Durations are logged with zerolog's Dur under a key that ends in _ms;
// errors only through Err.
package logkey

// The keys that all components share.
const (
	Component   = "component"       // lighthouse, manager, store, pg, …
	Job         = "job"             // name of the training run
	Cluster     = "cluster"         // cluster id of the lighthouse
	ReplicaID   = "replica_id"      // one incarnation of a replica group
	Group       = "group"           // name of a process group
	GroupRank   = "group_rank"      // index of a process within its replica group
	ReplicaRank = "replica_rank"    // index of a replica within its quorum
	WorldSize   = "world_size"      // members of the group or quorum at hand
	QuorumID    = "quorum_id"       // number of a quorum
	After       = "after_quorum_id" // number of the quorum that fell before
	Round       = "round"           // number of the answer within a quorum
	Step        = "step"            // number of committed updates
	Phase       = "phase"           // what a trainer is doing
	Peer        = "peer"            // the other side: a replica id or a rank
	Addr        = "addr"            // a network address
	Bytes       = "bytes"           // a size
	Cause       = "cause"           // kind of a quorum.Cause
	Reason      = "reason"          // why, for people
	Members     = "members"         // replica ids of a quorum
	Term        = "term"            // raft term
	ElapsedMs   = "elapsed_ms"      // how long it took
	LeftOut     = "left_out"        // lines not logged since the one before
	Certificate = "certificate"     // name of a certificate
	Until       = "until"           // when something ends
)
