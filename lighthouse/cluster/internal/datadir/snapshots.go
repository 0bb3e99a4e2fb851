package datadir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft"
)

// snapshotFiles is raft's store of snapshots in a data dir. raft leaves the folder of
// a snapshot that could not be begun, because the disk is full: one more at each try.
type snapshotFiles struct {
	raft.SnapshotStore
	dir string // of the data
}

// Create begins a snapshot, or leaves nothing of it.
func (s snapshotFiles) Create(version raft.SnapshotVersion, index, term uint64, configuration raft.Configuration,
	configurationIndex uint64, trans raft.Transport,
) (raft.SnapshotSink, error) {
	sink, err := s.SnapshotStore.Create(version, index, term, configuration, configurationIndex, trans)
	if err != nil {
		return nil, errors.Join(err, s.sweep(fmt.Sprintf("%d-%d-*.tmp", term, index)))
	}
	return sink, nil
}

// sweep removes the folders of that pattern.
func (s snapshotFiles) sweep(pattern string) error {
	left, err := filepath.Glob(filepath.Join(s.dir, snapshotFolder, pattern))
	for _, folder := range left {
		err = errors.Join(err, os.RemoveAll(folder))
	}
	return err
}
