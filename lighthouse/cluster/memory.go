package cluster

import (
	"errors"
	"fmt"
	"io"

	"github.com/google/uuid"
	"github.com/hashicorp/raft"
)

// Memory is what raft keeps of one server, without a disk. One server at a
// time may use it.
type Memory struct {
	id        raft.ServerID
	store     *raft.InmemStore
	snapshots *raft.InmemSnapshotStore
}

// NewMemory is the empty memory of a new server.
func NewMemory() *Memory {
	return &Memory{
		id: raft.ServerID(uuid.NewString()), store: raft.NewInmemStore(), snapshots: raft.NewInmemSnapshotStore(),
	}
}

// Clone copies the memory of a server that does not run, as a backup of its disk would
// be: put back later, it knows nothing of what came after.
func (m *Memory) Clone() (*Memory, error) {
	c := NewMemory()
	c.id = m.id
	if err := errors.Join(c.copyLog(m.store), c.copyVotes(m.store), c.copySnapshot(m.snapshots)); err != nil {
		return nil, fmt.Errorf("lighthouse: copy raft's memory: %w", err)
	}
	return c, nil
}

func (m *Memory) copyLog(from *raft.InmemStore) error {
	first, _ := from.FirstIndex() // it never fails
	last, _ := from.LastIndex()
	for i := first; i <= last && last > 0; i++ {
		entry := new(raft.Log)
		if err := from.GetLog(i, entry); err != nil {
			return err
		}
		if err := m.store.StoreLog(entry); err != nil {
			return err
		}
	}
	return nil
}

// copyVotes copies raft's stable store, which has these keys (raft's api.go and raft.go).
func (m *Memory) copyVotes(from *raft.InmemStore) error {
	for _, key := range []string{"CurrentTerm", "LastVoteTerm"} {
		if v, err := from.GetUint64([]byte(key)); err == nil { // else it was never set
			if err := m.store.SetUint64([]byte(key), v); err != nil {
				return err
			}
		}
	}
	v, err := from.Get([]byte("LastVoteCand"))
	if err != nil {
		return nil // never set
	}
	return m.store.Set([]byte("LastVoteCand"), v)
}

func (m *Memory) copySnapshot(from *raft.InmemSnapshotStore) error {
	list, err := from.List()
	if err != nil || len(list) == 0 {
		return err
	}
	meta, data, err := from.Open(list[0].ID)
	if err != nil {
		return err
	}
	defer data.Close()
	_, none := raft.NewInmemTransport("")
	sink, err := m.snapshots.Create(meta.Version, meta.Index, meta.Term, meta.Configuration, meta.ConfigurationIndex, none)
	if err != nil {
		return err
	}
	if _, err := io.Copy(sink, data); err != nil {
		return errors.Join(err, sink.Cancel())
	}
	return sink.Close()
}
