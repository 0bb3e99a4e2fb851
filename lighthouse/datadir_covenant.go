package lighthouse

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/skerry-ft/skerry/internal/wire"
)

// covenantFile tells which cluster the data are of.
const covenantFile = "cluster.json"

// kept is what covenantFile holds.
type kept struct {
	covenant
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

// readCovenant returns what is kept, the zero value if nothing is.
func (d *dataDir) readCovenant() (kept, error) {
	path := filepath.Join(d.path, covenantFile)
	var k kept
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
		return kept{}, fmt.Errorf("read %s: %w", path, err)
	}
	return k, nil
}

// writeCovenant keeps k, durably.
func (d *dataDir) writeCovenant(k kept) error {
	data, err := json.MarshalIndent(k, "", "  ")
	if err == nil {
		err = writeDurably(filepath.Join(d.path, covenantFile), string(data)+"\n")
	}
	if err != nil {
		return fmt.Errorf("keep the cluster: %w", err)
	}
	return nil
}
