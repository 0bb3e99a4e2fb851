package datadir

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/internal/wire"
)

// Data that could be set aside in part only are not used again under the id for
// which they promised something.
func TestSetAsideHalfWay(t *testing.T) {
	t.Parallel()
	d, err := Open(t.TempDir(), zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }() // the test is over
	id, err := d.RaftID()
	if err != nil {
		t.Fatal(err)
	}
	k := Record{ClusterRecord: ClusterRecord{Standing: wire.StandingFounded, Cluster: "c"}, Started: true, Known: []string{"a:1"}}
	if err := d.WriteRecord(k); err != nil {
		t.Fatal(err)
	}
	// A folder that is not empty is in the way of the log's.
	inTheWay := filepath.Join(d.path, asideFolder(id), logFolder)
	if err := errors.Join(os.MkdirAll(filepath.Join(inTheWay, "x"), 0o700), os.Mkdir(filepath.Join(d.LogPath(), "y"), 0o700)); err != nil {
		t.Fatal(err)
	}
	if _, err := d.SetAside(k, zerolog.Nop(), ErrOldCopy); err == nil {
		t.Fatal("set aside over what is there")
	}
	next, err := d.RaftID()
	if err != nil || next == id {
		t.Errorf("the next start has raft id %s, %v: that of the data that were to go", next, err)
	}
}
