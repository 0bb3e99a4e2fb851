package cluster

import (
	"cmp"
	"time"

	"github.com/hashicorp/raft"

	"github.com/skerry-ft/skerry/internal/problems"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/lighthouse/cluster/internal/disk"
)

// DefaultDiskTimeout is how long a write of the log may take, if
// RaftOptions.DiskTimeout is 0.
const DefaultDiskTimeout = 5 * time.Second

// Disk is what raft writes to: a raft.LogStore, raft.StableStore and
// raft.MonotonicLogStore.
type Disk = disk.Store

// RaftOptions says how this server takes part in a raft cluster.
type RaftOptions struct {
	// Transport carries raft's messages. nil is TCP for one of several
	// servers, and a transport within the process for a server alone.
	Transport raft.Transport

	// Servers bootstraps a new cluster of these voters, this server among
	// them by its transport's address. Empty bootstraps a cluster of this
	// server alone. A server that has a ledger already ignores it.
	Servers []raft.Server

	// Disk wraps what raft writes to, for tests in which a disk fails. nil wraps
	// nothing.
	Disk func(Disk) Disk

	// Memory keeps what raft writes where there is no DataDir, for tests in which a
	// server starts again in one process: with the same Memory it goes on with its
	// ledger. nil: memory that is gone with the server.
	Memory *Memory

	// DiskTimeout is how long a write of the log may take before it counts as
	// failed: the leader steps down then, and another leads. Too low, and a busy
	// disk moves the leadership about; too high, and one that hangs stops all
	// quorums for as long. 0 means DefaultDiskTimeout.
	DiskTimeout time.Duration

	// LocalID is this server's raft id. Empty takes the one in DataDir, or
	// draws a new one.
	LocalID raft.ServerID

	// Heartbeat, Election and Lease are raft's timeouts: a follower that hears
	// nothing for Heartbeat starts an election; a leader that reaches no
	// majority for Lease steps down; Lease <= Heartbeat <= Election. Lower ones
	// fail over faster and are more easily upset by a busy machine. 0 means
	// 300, 300 and 200 ms, or 50 ms each for a cluster of one, where nobody
	// competes.
	Heartbeat, Election, Lease time.Duration
}

// WithDefaults returns o with its zeros that mean a default filled in, for one of
// several servers or a server alone.
func (o RaftOptions) WithDefaults(several bool) RaftOptions {
	o.DiskTimeout = cmp.Or(o.DiskTimeout, DefaultDiskTimeout)
	defaults := Timings()["default"]
	if len(o.Servers) <= 1 && o.Transport == nil && !several {
		defaults = Timing{50 * time.Millisecond, 50 * time.Millisecond, 50 * time.Millisecond}
	}
	o.Heartbeat = cmp.Or(o.Heartbeat, defaults.Heartbeat)
	o.Election = cmp.Or(o.Election, defaults.Election)
	o.Lease = cmp.Or(o.Lease, defaults.Lease)
	return o
}

// minTimeout bounds raft's timeouts from below.
const minTimeout = time.Millisecond

// Validate returns what is wrong with o, field by field.
func (o RaftOptions) Validate() error {
	l := problems.List{Prefix: "Raft."}
	problems.Within(&l, "Heartbeat", o.Heartbeat, minTimeout, wire.MaxTimeout)
	problems.Within(&l, "Election", o.Election, minTimeout, wire.MaxTimeout)
	problems.Within(&l, "Lease", o.Lease, minTimeout, wire.MaxTimeout)
	problems.Within(&l, "DiskTimeout", o.DiskTimeout, minTimeout, wire.MaxTimeout)
	l.Want(o.Lease <= o.Heartbeat, "Lease", o.Lease, "at most Raft.Heartbeat = %v", o.Heartbeat)
	l.Want(o.Heartbeat <= o.Election, "Heartbeat", o.Heartbeat, "at most Raft.Election = %v", o.Election)
	return l.Err()
}

// Timing is a named set of raft's three timeouts.
type Timing struct{ Heartbeat, Election, Lease time.Duration }

// Timings returns the sets by name. Fast fails over in a third of the time
// of default and wants a quiet network and machine; slow is for servers that
// are far apart, or that share their disks and cores with training.
func Timings() map[string]Timing {
	const ms = time.Millisecond
	return map[string]Timing{
		"fast":    {100 * ms, 100 * ms, 50 * ms},
		"default": {300 * ms, 300 * ms, 200 * ms},
		"slow":    {1000 * ms, 1000 * ms, 500 * ms},
	}
}
