package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/skerry-ft/skerry/internal/wire"
)

// recordFile tells which cluster the data are of.
const recordFile = "cluster.json"

// ClusterRecord is how this server stands to its cluster. It is written down before
// it is told.
type ClusterRecord struct {
	Standing     wire.Standing  `json:"standing"`
	Cluster      string         `json:"cluster,omitempty"`
	Proposer     string         `json:"proposer,omitempty"`
	Boot         uint64         `json:"proposer_boot,omitempty"` // the proposer's, when we pledged
	Founders     []wire.Founder `json:"founders,omitempty"`
	Voters       int            `json:"voters,omitempty"`
	Abandoned    []string       `json:"abandoned,omitempty"`
	ProposerLost bool           `json:"forsaken,omitempty"`
}

// Record is what recordFile holds.
type Record struct {
	ClusterRecord

	// Started is set before raft first runs on the data. A log that is missing
	// later was lost, and is not begun again under the same id.
	Started bool `json:"started,omitempty"`
	// Boot is the newest process's number; each is above the last.
	Boot uint64 `json:"boot,omitempty"`
	// Place is where the folder was.
	Place Place `json:"place,omitzero"`
	// Known are other servers' RPC addresses, to be found again without --join.
	Known []string `json:"known,omitempty"`
}

// Holds returns nil if the folder at path is that of a server of a cluster.
func Holds(path string) error {
	_, err := os.Stat(filepath.Join(path, recordFile))
	return err
}

// ReadRecord returns what is kept, the zero value if nothing is.
func (d *Dir) ReadRecord() (Record, error) {
	path := filepath.Join(d.path, recordFile)
	var k Record
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return k, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &k)
	}
	if err == nil && (k.Standing < wire.StandingNew || k.Standing > wire.StandingFounded) {
		err = fmt.Errorf("standing = %d, want 0 to %d", k.Standing, wire.StandingFounded)
	}
	if err != nil {
		return Record{}, fmt.Errorf("read %s: %w", path, err)
	}
	return k, nil
}

// WriteRecord keeps k, durably.
func (d *Dir) WriteRecord(k Record) error {
	data, err := json.MarshalIndent(k, "", "  ")
	if err == nil {
		err = writeDurably(filepath.Join(d.path, recordFile), string(data)+"\n")
	}
	if err != nil {
		return fmt.Errorf("keep the cluster: %w", err)
	}
	return nil
}
