package cluster

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"

	"github.com/hashicorp/raft"

	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/lighthouse/api"
	"github.com/skerry-ft/skerry/quorum"
	"github.com/skerry-ft/skerry/quorum/story"
)

// state is raft's state machine: the cluster id, and per job a quorum.Ledger.
// Every rule is the ledger's own; this only finds the right one. It is safe
// for concurrent use.
type state struct {
	mu   sync.RWMutex
	data replicated
}

// replicated is what a snapshot holds.
type replicated struct {
	Cluster string               `json:"cluster"`
	Jobs    map[string]*jobState `json:"jobs"`
	Retired []string             `json:"retired,omitempty"` // raft ids, see retire
	// Floor is the highest id of all jobs that were forgotten: those of a job that
	// takes the name of one begin above it (Q1).
	Floor int64 `json:"floor,omitempty"`
}

// jobState is what is kept of a job: its ledger, and beside it what was told of it. An older
// version leaves out what it does not know.
type jobState struct {
	quorum.Ledger

	Told []story.Told `json:",omitempty"`

	// Quorums is how many were formed since the job began, for people. 0: not known, as when
	// a leader that does not count formed one, or one that the ledger lost was brought back by its
	// members: no number is better than a wrong one.
	Quorums int64 `json:",omitempty"`

	// Wanted is how many replicas are wanted, which ends with the run; nil: no number.
	Wanted *api.Wanted `json:",omitempty"`
}

// count counts the quorum that c has formed; before is the last one before it.
func (s *jobState) count(c Command, before *quorum.Quorum) {
	switch {
	case c.Kind != CommandFormed:
	case !c.Counted:
		s.Quorums = 0
	case before == nil:
		s.Quorums = 1
	case s.Quorums > 0 && before.ID != s.Last.ID: // else another round of it
		s.Quorums++
	}
}

// want keeps what c says of how many replicas are wanted. The next run of a job that has finished
// begins with what its launchers say.
func (s *jobState) want(c Command) {
	if slices.ContainsFunc(c.Told, func(t story.Told) bool { return t.Kind == story.Finished }) {
		s.Wanted = nil
	}
	if c.Kind == CommandScale {
		s.Wanted = boundedWanted(c.Wanted)
	}
}

// boundedWanted is w; nil, if it is none that a server writes.
func boundedWanted(w *api.Wanted) *api.Wanted {
	if w == nil || w.Replicas < 1 || w.Replicas > quorum.MaxMembers || w.AtMs < 1 || w.AtMs > quorum.MaxStep ||
		max(len(w.By), len(w.From), len(w.Reason)) > api.MaxReasonBytes {
		return nil
	}
	return w
}

func newState() *state {
	return &state{data: replicated{Jobs: make(map[string]*jobState)}}
}

// cluster returns the cluster id, "" before the first leader gave one.
func (s *state) cluster() string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.data.Cluster
}

// jobs returns the names of all jobs that have a ledger, sorted.
func (s *state) jobs() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Sorted(maps.Keys(s.data.Jobs))
}

// job returns a copy of a job's ledger; a new job's starts at unixMs.
func (s *state) job(name string, unixMs int64) quorum.Ledger {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if l, ok := s.data.Jobs[name]; ok {
		return l.Clone()
	}
	return quorum.NewLedger(s.data.Cluster, name, max(unixMs, s.data.Floor))
}

// beside is what is kept of a job beside its ledger. The caller only reads it.
func (s *state) beside(name string) (b jobState) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if l := s.data.Jobs[name]; l != nil {
		b = jobState{Told: l.Told, Quorums: l.Quorums, Wanted: l.Wanted}
	}
	return b
}

// has says whether a job has a ledger.
func (s *state) has(name string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	_, ok := s.data.Jobs[name]
	return ok
}

// newest returns nil if a job's ledger holds no quorum after q.
func (s *state) newest(name string, q quorum.Quorum) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if l := s.data.Jobs[name]; l != nil {
		return l.Repeats(q)
	}
	return nil
}

// Apply carries out one command. It returns an error or nil, which the
// proposer reads from the future.
func (s *state) Apply(entry *raft.Log) any {
	var c Command
	if err := json.Unmarshal(entry.Data, &c); err != nil {
		return fmt.Errorf("decode ledger command %d: %w", entry.Index, err)
	}
	if err := c.bounded(); err != nil {
		return fmt.Errorf("ledger command %d: %w", entry.Index, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.Kind == commandFound {
		// Two leaders may both try: the first one's id stays.
		s.data.Cluster = cmp.Or(s.data.Cluster, c.Cluster)
		return nil
	}
	if c.Kind == commandRetire {
		return s.retireLocked(c.Server)
	}
	if c.Kind == commandRise {
		s.riseLocked(c.UnixMs)
		return nil
	}
	l, known := s.data.Jobs[c.Job]
	if c.Kind == CommandForget {
		if known {
			if err := l.Forgets(c.Highest); err != nil {
				return err
			}
			s.data.Floor = max(s.data.Floor, l.HighestID)
		}
		delete(s.data.Jobs, c.Job)
		return nil
	}
	if !known && c.Kind == CommandTell {
		return nil // it was forgotten meanwhile
	}
	if !known {
		l = &jobState{Ledger: quorum.NewLedger(s.data.Cluster, c.Job, max(c.UnixMs, s.data.Floor))}
	}
	before := l.Last
	if err := applyTo(&l.Ledger, c); err != nil {
		return err
	}
	l.count(c, before)
	l.Told = story.Keep(l.Told, c.Told)
	l.want(c)
	s.data.Jobs[c.Job] = l
	return nil
}

// bounded refuses what would make a state that Restore does not take. No server
// writes such a command, but by a clock that is thousands of years ahead.
func (c *Command) bounded() error {
	c.UnixMs = max(c.UnixMs, 0) // a clock that stands before 1970 says nothing
	switch {
	case c.UnixMs > quorum.MaxStep:
		return fmt.Errorf("unix_ms = %d, want at most %d", c.UnixMs, int64(quorum.MaxStep))
	case len(c.Job) > quorum.MaxIDBytes:
		return fmt.Errorf("job has %d bytes, want at most %d", len(c.Job), quorum.MaxIDBytes)
	case len(c.Cluster) > quorum.MaxIDBytes:
		return fmt.Errorf("cluster has %d bytes, want at most %d", len(c.Cluster), quorum.MaxIDBytes)
	}
	return nil
}

// applyTo carries out a job's command on its ledger.
func applyTo(l *quorum.Ledger, c Command) error {
	switch {
	case c.Kind == CommandFormed && c.Formed != nil:
		if !Fenced {
			unfence(l, c.Formed)
		}
		return l.ApplyFormed(*c.Formed)
	case c.Kind == CommandConfigure && c.Config != nil:
		return l.ApplyConfig(*c.Config)
	case c.Kind == CommandUnconfigure:
		l.Config = nil
		return nil
	case c.Kind == CommandDrain:
		return l.ApplyDrain(c.Replica)
	case c.Kind == CommandUndrain:
		return l.ApplyUndrain(c.Replica)
	case c.Kind == CommandEvict:
		return l.ApplyEvict(c.Replica)
	case c.Kind == CommandTell, c.Kind == CommandScale && c.Wanted != nil:
		return nil // what is told comes with any command, and jobState keeps what is wanted
	}
	return fmt.Errorf("ledger command of unknown kind %q", c.Kind)
}

// unfence lets a command through whatever it follows.
func unfence(l *quorum.Ledger, f *quorum.Formed) {
	f.FollowsID, f.FollowsRound, f.Term = 0, 0, max(f.Term, l.Term)
	if l.Last != nil {
		f.FollowsID, f.FollowsRound = l.Last.ID, l.Last.Round
	}
	l.HighestID = min(l.HighestID, f.Quorum.ID-1)
}

// maxRetired bounds the raft ids that are remembered as taken out. A server that
// was gone for a thousand others is long forgotten by whoever might start it.
const maxRetired = 1_000

// retireLocked keeps that a raft id is never to be used again. The caller holds
// the lock.
func (s *state) retireLocked(id string) error {
	if id == "" || len(id) > wire.MaxServerIDBytes {
		return fmt.Errorf("retire server %q: want an id of 1 to %d bytes", id, wire.MaxServerIDBytes)
	}
	if !slices.Contains(s.data.Retired, id) {
		s.data.Retired = append(s.data.Retired, id)
		s.data.Retired = s.data.Retired[max(0, len(s.data.Retired)-maxRetired):]
	}
	return nil
}

// retired says whether a server was taken out of the cluster.
func (s *state) retired(id string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Contains(s.data.Retired, id)
}

// Snapshot returns the state as of now; raft calls it between two commands.
func (s *state) Snapshot() (raft.FSMSnapshot, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	data, err := json.Marshal(s.data)
	if err != nil {
		return nil, fmt.Errorf("encode the ledger: %w", err)
	}
	return snapshot(data), nil
}

// Restore replaces the state by a snapshot's. One that is not a ledger's is refused,
// and the state stays.
func (s *state) Restore(r io.ReadCloser) error {
	defer func() { _ = r.Close() }() // read only
	data, err := readState(r)
	if err != nil {
		return fmt.Errorf("decode the ledger: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.data = data
	return nil
}

// snapshot is an encoded state.
type snapshot []byte

// Persist writes the snapshot to raft's sink.
func (s snapshot) Persist(sink raft.SnapshotSink) error {
	if _, err := sink.Write(s); err != nil {
		_ = sink.Cancel() // the write's error tells why
		return fmt.Errorf("write a snapshot: %w", err)
	}
	return sink.Close()
}

// Release does nothing: the bytes are the collector's.
func (s snapshot) Release() {}
