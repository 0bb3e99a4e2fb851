package cluster

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/metadb"
	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/lighthouse/api"
	"github.com/skerry-ft/skerry/lighthouse/cluster/internal/datadir"
	"github.com/skerry-ft/skerry/lighthouse/cluster/internal/disk"
	"github.com/skerry-ft/skerry/lighthouse/cluster/internal/repair"
	"github.com/skerry-ft/skerry/quorum"
	"github.com/skerry-ft/skerry/quorum/story"
)

// ErrNotLeader says that this server does not lead, or no longer does: what
// was asked may or may not have happened, and should be asked again.
var ErrNotLeader = fmt.Errorf("%w: this lighthouse does not lead", wire.ErrNoLeader)

// localAddress is the raft address of a cluster of one, whose transport stays
// within the process.
const localAddress raft.ServerAddress = "local"

const (
	// applyTimeout bounds how long a command waits to enter raft's queue. Once
	// it is in, it ends with the leader's lease at the latest.
	applyTimeout = 5 * time.Second

	// snapshotThreshold is how many commands lie between two snapshots. They
	// are some kilobytes each; replaying this many takes milliseconds.
	snapshotThreshold = 1_024

	// trailingLogs is how many commands are kept behind a snapshot, for
	// followers that were away for a moment; one that was away for longer is sent
	// the snapshot. Of a lighthouse in memory the entries are the greater part of
	// what it holds.
	trailingLogs = 256
)

// Ledger is what raft replicates, and raft itself. What it returns of jobs is what
// this server holds, which is all that was committed only while it leads, once its
// leadership was established. Its methods are safe for concurrent use; Apply and
// Confirm wait for a majority, until this server's lease of the leadership ends at
// the latest.
type Ledger struct {
	cfg    ledgerConfig // as it was opened, with a transport
	id     raft.ServerID
	raft   *raft.Raft
	state  *state
	checks shared     // of leadership
	disk   *disk.Disk // nil: in memory
	// release gives back what raft used, after raft has shut down.
	release func() error
}

// ledgerConfig says how a ledger is opened.
type ledgerConfig struct {
	RaftOptions
	dir *datadir.Dir // nil: in memory
	log zerolog.Logger

	// bootstrap are the voters with whom a new log begins; nil begins none: the
	// leader of a cluster that exists sends one. bootstrapped is called between
	// a new log's beginning and its first use.
	bootstrap    []raft.Server
	bootstrapped func() error

	// cluster is the id that the cluster has already, "" if the first leader
	// draws it.
	cluster string

	// readsDeltas says of another server whether it reads deltas; nil: all do.
	readsDeltas func(raft.ServerID) bool
}

// openLedger starts raft on the data dir, or in memory if there is none.
func openLedger(cfg ledgerConfig) (*Ledger, error) {
	if cfg.Transport == nil {
		_, cfg.Transport = raft.NewInmemTransport(localAddress)
	}
	l := &Ledger{cfg: cfg, state: newState(), release: func() error { return nil }}
	conf := raft.DefaultConfig()
	conf.Logger = raftLogger(cfg.log)
	conf.HeartbeatTimeout = cfg.Heartbeat
	conf.ElectionTimeout = cfg.Election
	conf.LeaderLeaseTimeout = cfg.Lease
	conf.CommitTimeout = min(conf.CommitTimeout, cfg.Heartbeat/2)
	conf.SnapshotThreshold = snapshotThreshold
	conf.TrailingLogs = trailingLogs
	conf.LocalID = cfg.LocalID

	logs, stable, snapshots, err := l.stores(conf)
	if err != nil {
		return nil, err
	}
	if cfg.Disk != nil && l.disk != nil {
		l.disk.Store = cfg.Disk(l.disk.Store)
	}
	l.id = conf.LocalID
	servers := cfg.bootstrap
	if cfg.cluster == "" {
		servers = cfg.Servers
		if len(servers) == 0 {
			servers = []raft.Server{{ID: conf.LocalID, Address: cfg.Transport.LocalAddr()}}
		}
	}
	known, err := raft.HasExistingState(logs, stable, snapshots)
	if err == nil {
		err = checkSnapshot(snapshots)
	}
	if err == nil && !known && len(servers) > 0 {
		err = raft.BootstrapCluster(conf, logs, stable, snapshots, cfg.Transport, raft.Configuration{Servers: servers})
	}
	if err == nil && len(servers) > 0 && cfg.bootstrapped != nil {
		err = cfg.bootstrapped()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read the raft log: %w", err), l.release())
	}
	l.raft, err = raft.NewRaft(conf, l.state, logs, stable, snapshots, cfg.Transport)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start raft: %w", err), l.release())
	}
	return l, nil
}

// stores opens the log, the stable store and the snapshots, and completes
// conf's id.
func (l *Ledger) stores(conf *raft.Config) (raft.LogStore, raft.StableStore, raft.SnapshotStore, error) {
	dir := l.cfg.dir
	if dir == nil {
		memory := l.cfg.Memory
		if memory == nil {
			memory = NewMemory()
		}
		conf.LocalID = cmp.Or(conf.LocalID, memory.id)
		return memory.store, memory.store, memory.snapshots, nil
	}
	if conf.LocalID == "" {
		id, err := dir.RaftID()
		if err != nil {
			return nil, nil, nil, err
		}
		conf.LocalID = raft.ServerID(id)
	}
	snapshots, err := dir.Snapshots(conf.Logger)
	if err != nil {
		return nil, nil, nil, err
	}
	// The log's Close leaves its metadata open, and with them their lock.
	meta := new(metadb.BoltMetaDB)
	if err := repair.Segments(dir.LogPath(), meta); err != nil {
		return nil, nil, nil, errors.Join(err, meta.Close())
	}
	store, err := wal.Open(dir.LogPath(), wal.WithLogger(conf.Logger), wal.WithMetaStore(meta), wal.WithSegmentFiler(repair.Filer(dir.LogPath())))
	if err != nil {
		return nil, nil, nil, errors.Join(fmt.Errorf("open raft log in %s: %w", dir.LogPath(), err), meta.Close())
	}
	l.release = func() error { return errors.Join(store.Close(), meta.Close()) }
	l.disk = disk.New(store, l.cfg.DiskTimeout, l.cfg.log)
	return l.disk, l.disk, snapshots, nil
}

// Apply replicates a command and returns what the ledger said of it. After an
// error that is not the ledger's own refusal, the command may still take
// effect later.
func (l *Ledger) Apply(c Command) error {
	data, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("encode ledger command: %w", err)
	}
	f := l.raft.Apply(data, applyTimeout)
	if err := f.Error(); err != nil {
		return fmt.Errorf("write the ledger: %w", unwritten(leadershipError(err)))
	}
	if err, ok := f.Response().(error); ok {
		return fmt.Errorf("write the ledger: %w", err)
	}
	return nil
}

// ReadsDeltas says whether all servers read entries that say only what differs from
// the quorum before. One of an older build takes such an entry for a quorum without
// members and refuses it: its ledger would be another from then on. So during an
// upgrade, and until gossip has told of all servers, entries are whole.
func (l *Ledger) ReadsDeltas() bool {
	if l.cfg.readsDeltas == nil || !Fenced {
		return Fenced
	}
	f := l.raft.GetConfiguration()
	return f.Error() == nil && !slices.ContainsFunc(f.Configuration().Servers, func(s raft.Server) bool {
		return !l.cfg.readsDeltas(s.ID)
	})
}

// verify returns nil if this server led in that term at some moment after the
// call.
func (l *Ledger) verify(term uint64) error {
	if err := l.checks.do(func() error { return l.raft.VerifyLeader().Error() }); err != nil {
		return leadershipError(err)
	}
	if now := l.raft.CurrentTerm(); now != term {
		return fmt.Errorf("%w: term %d has ended, it is %d", ErrNotLeader, term, now)
	}
	return nil
}

// Confirm returns nil if an answer that changes nothing, and so is not written, may
// be given again: this server led in that term at some moment after the call, and
// the job's ledger holds no quorum after q. Errors: ErrNotLeader; quorum.ErrFenced.
func (l *Ledger) Confirm(term uint64, job string, q quorum.Quorum) error {
	if !Fenced {
		return nil
	}
	return errors.Join(l.verify(term), l.state.newest(job, q))
}

// leads says whether this server leads, as far as its raft knows.
func (l *Ledger) leads() bool { return l.raft.State() == raft.Leader }

// Progress is where this server is in the raft log.
type Progress struct {
	LastIndex, CommitIndex, AppliedIndex, Term uint64

	Contact time.Time // when the leader was last heard; zero: never
	Leads   bool
}

// Progress returns where this server is.
func (l *Ledger) Progress() Progress {
	r := l.raft
	return Progress{r.LastIndex(), r.CommitIndex(), r.AppliedIndex(), r.CurrentTerm(), r.LastContact(), l.leads()}
}

// Cluster returns the cluster's id, "" before its first leader gave it one.
func (l *Ledger) Cluster() string { return l.state.cluster() }

// Jobs returns the names of all jobs that are in the ledger, sorted.
func (l *Ledger) Jobs() []string { return l.state.jobs() }

// Has says whether a job is in the ledger.
func (l *Ledger) Has(job string) bool { return l.state.has(job) }

// Job returns a copy of a job's ledger; that of a new one gives ids above unixMs.
func (l *Ledger) Job(name string, unixMs int64) quorum.Ledger { return l.state.job(name, unixMs) }

// Told returns what is kept of what was told of a job, oldest first. The caller only reads it.
func (l *Ledger) Told(name string) []story.Told { return l.state.beside(name).Told }

// Quorums is how many quorums a job has formed, which is the number of its last one. 0: that is
// not known.
func (l *Ledger) Quorums(job string) int64 { return l.state.beside(job).Quorums }

// Wanted is how many replicas are wanted of a job; nil: no number. The caller only reads it.
func (l *Ledger) Wanted(job string) *api.Wanted { return l.state.beside(job).Wanted }

// barrier returns when all that was committed before has reached the state.
func (l *Ledger) barrier() error {
	return unwritten(leadershipError(l.raft.Barrier(applyTimeout).Error()))
}

// leadershipError makes raft's many words for a lost leadership one.
func leadershipError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipLost),
		errors.Is(err, raft.ErrLeadershipTransferInProgress), errors.Is(err, raft.ErrRaftShutdown):
		return fmt.Errorf("%w: %w", ErrNotLeader, err)
	}
	return err
}

// LeadershipEnds says whether an error of the ledger's means that the leadership is
// about to end. What raft refuses during a handover, it does not write; and if that
// comes to nothing, this server leads on.
func LeadershipEnds(err error) bool {
	return errors.Is(err, ErrNotLeader) && !errors.Is(err, raft.ErrLeadershipTransferInProgress)
}

// unwritten makes an error of raft's, for a command that it had taken in, one of
// a lost leadership: the command may yet take effect, if part of it was written.
func unwritten(err error) error {
	if err == nil || errors.Is(err, ErrNotLeader) || errors.Is(err, raft.ErrEnqueueTimeout) {
		return err
	}
	return errors.Join(ErrNotLeader, err)
}

// close ends raft and gives back its files. First it closes what raft speaks through, so
// that nothing which raft could not write is told to anybody.
func (l *Ledger) close() (err error) {
	if t, ok := l.cfg.Transport.(raft.WithClose); ok {
		err = t.Close()
	}
	shutdown := func() error { return l.raft.Shutdown().Error() }
	if l.disk == nil {
		return errors.Join(err, shutdown(), l.release())
	}
	l.disk.GiveUp()
	return errors.Join(err, l.disk.End(shutdown, l.release))
}
