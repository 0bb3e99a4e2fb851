package cluster

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/lighthouse/cluster/internal/datadir"
	"github.com/skerry-ft/skerry/quorum"
)

// Recovered says what Recover did.
type Recovered struct {
	Cluster   string   `json:"cluster"`
	RaftID    string   `json:"raft_id"` // new
	OldRaftID string   `json:"old_raft_id"`
	LastIndex uint64   `json:"last_index"` // up to where the log went
	Jobs      []string `json:"jobs"`
}

// Recover makes the data in dir those of the only voter of their cluster, for
// when the majority is lost for good. What the lost servers had committed and
// this one had not heard is lost with them, so it is for the server with the
// longest log. The servers that are left join it with empty data dirs. To each
// other, servers of before and after a recovery are of different clusters: two
// that come back with their old votes can lead nobody else. For replicas the
// cluster is the same.
//
// dir must not be in use. aside, if not empty, names data that were set aside
// there ("old-…"), which are put back first.
func Recover(dir, aside string, log zerolog.Logger) (r Recovered, err error) {
	if err := datadir.Holds(dir); err != nil && aside == "" {
		return r, fmt.Errorf("%s holds no server of a cluster: %w", dir, err)
	}
	d, err := datadir.Open(dir, log)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if aside != "" {
		if err := d.PutBack(aside, log); err != nil {
			return r, err
		}
	}
	k, err := d.ReadRecord()
	if err != nil {
		return r, err
	}
	if k.Standing != wire.StandingFounded {
		return r, fmt.Errorf("%s belongs to no cluster that was founded: there is nothing to recover", dir)
	}
	if r.OldRaftID, err = d.RaftID(); err != nil {
		return r, err
	}
	r.Cluster, r.RaftID = afterRecovery(k.Cluster), uuid.NewString()
	if err := recoverRaft(d, &r, log); err != nil {
		return r, err
	}
	// From here on the log is that of the new id; the id follows last, so that a
	// crash in between leaves a server that is in nobody's list, and not a
	// second one under an id that others know.
	k.Cluster, k.Founders, k.Known, k.Started, k.Place = r.Cluster, nil, nil, true, datadir.Place{}
	if err := d.WriteRecord(k); err != nil {
		return r, err
	}
	return r, d.KeepRaftID(r.RaftID)
}

// afterRecovery is what servers call a cluster after one more recovery: its id,
// and the number of recoveries.
func afterRecovery(cluster string) string {
	id, number, _ := strings.Cut(cluster, "+")
	n, _ := strconv.Atoi(number) // none yet is 0
	return fmt.Sprintf("%s+%d", id, n+1)
}

// recoverRaft rewrites the log as a snapshot with this server as the only voter.
func recoverRaft(d *datadir.Dir, r *Recovered, log zerolog.Logger) error {
	l := &Ledger{cfg: ledgerConfig{dir: d, log: log}, state: newState(), release: func() error { return nil }}
	l.cfg.DiskTimeout = DefaultDiskTimeout
	conf := raft.DefaultConfig()
	conf.Logger, conf.LocalID = raftLogger(log), raft.ServerID(r.RaftID)
	logs, stable, snapshots, err := l.stores(conf)
	if err != nil {
		return err
	}
	_, transport := raft.NewInmemTransport(localAddress)
	servers := raft.Configuration{Servers: []raft.Server{{ID: conf.LocalID, Address: localAddress}}}
	if r.LastIndex, err = logs.LastIndex(); err == nil {
		err = raft.RecoverCluster(conf, recovering{l.state, min(time.Now().UnixMilli(), quorum.MaxStep)}, logs, stable, snapshots, transport, servers)
	}
	r.Jobs = l.state.jobs()
	if err = errors.Join(err, transport.Close(), l.release()); err != nil {
		return fmt.Errorf("rewrite the raft log in %s: %w", d.Path(), err)
	}
	return nil
}

// recovering is the state of a cluster that lost its majority. The lost servers
// may have given ids that are not in this log: all ids begin anew above the
// clock's milliseconds, as those of a new job do, and there is less than one
// quorum a millisecond.
type recovering struct {
	*state
	unixMs int64
}

// Snapshot is what the cluster goes on with.
func (r recovering) Snapshot() (raft.FSMSnapshot, error) {
	r.mu.Lock()
	r.riseLocked(r.unixMs)
	for _, l := range r.data.Jobs {
		l.Quorums = 0 // the servers that are lost may have had more of them
	}
	r.mu.Unlock()
	return r.state.Snapshot()
}

// riseLocked makes every id to come higher than floor. The caller holds the lock.
func (s *state) riseLocked(floor int64) {
	s.data.Floor = max(s.data.Floor, floor)
	for _, l := range s.data.Jobs {
		l.HighestID = max(l.HighestID, floor)
	}
}
