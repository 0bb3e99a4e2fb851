package cluster

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

// savedState is what recordFile holds.
type savedState struct {
	clusterRecord
	// Started is set before raft first runs on the data. A log that is missing
	// later was lost, and is not begun again under the same id.
	Started bool `json:"started,omitempty"`
	// Boot is the newest process's number; each is above the last.
	Boot uint64 `json:"boot,omitempty"`
	// Place is where the folder was.
	Place place `json:"place,omitzero"`
	// Known are other servers' RPC addresses, to be found again without --join.
	Known []string `json:"known,omitempty"`
}

// readRecord returns what is kept, the zero value if nothing is.
func (d *dataDir) readRecord() (savedState, error) {
	path := filepath.Join(d.path, recordFile)
	var k savedState
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
		return savedState{}, fmt.Errorf("read %s: %w", path, err)
	}
	return k, nil
}

// writeRecord keeps k, durably.
func (d *dataDir) writeRecord(k savedState) error {
	data, err := json.MarshalIndent(k, "", "  ")
	if err == nil {
		err = writeDurably(filepath.Join(d.path, recordFile), string(data)+"\n")
	}
	if err != nil {
		return fmt.Errorf("keep the cluster: %w", err)
	}
	return nil
}
