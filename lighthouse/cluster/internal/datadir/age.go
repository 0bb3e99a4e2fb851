package datadir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hashicorp/go-hclog"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/metadb"
	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/internal/wire"
)

// A voter that forgets what it promised can undo what was committed: the others
// count on its log and its vote. So a data dir that is not what it was makes a
// new server, under a new raft id, and what is there is set aside. Signs are:
//
//   - the log is missing, though raft has run on it;
//   - the files are not the ones that they were: a copy was put here (the lock
//     file, which nothing ever replaces, has another inode and another birth);
//   - the leader, or one before it, has this server's word for more of the log
//     than is here (a file system or a disk was rolled back).

// ErrOldCopy says that a server's data are older than what it has promised.
var ErrOldCopy = errors.New("the data dir is an old copy")

// asideFolder is where the data of server id go.
func asideFolder(id string) string { return "old-" + id }

// Place tells one copy of a folder from another.
type Place struct {
	Inode  uint64 `json:"inode,omitempty"`
	BornNs int64  `json:"born_ns,omitempty"` // 0: the file system does not tell
}

// elsewhere says whether now is another copy than p. Where the file system does
// not tell a file's birth, an inode alone proves nothing.
func (p Place) elsewhere(now Place) bool {
	return p != (Place{}) && p.BornNs != 0 && now.BornNs != 0 && p.Inode != now.Inode && p.BornNs != now.BornNs
}

// OpenRecord reads what is kept, and sets the data aside if they are not what
// they were.
func (d *Dir) OpenRecord(log zerolog.Logger) (Record, error) {
	k, err := d.ReadRecord()
	if err != nil {
		return k, err
	}
	now, err := d.place()
	if err != nil {
		return k, err
	}
	had := k.Place
	k.Place = now
	if k.Standing != wire.StandingFounded || len(k.Known) == 0 && len(k.Founders) <= 1 {
		return k, nil // nobody else counts on these data
	}
	missing := false
	if k.Started {
		index, err := d.LastIndex()
		if err != nil {
			return k, err
		}
		missing = index == 0
	}
	switch {
	case missing:
		return d.SetAside(k, log, errors.New("the raft log is missing"))
	case had.elsewhere(now):
		return d.SetAside(k, log, fmt.Errorf("%w: a copy of another folder was put here", ErrOldCopy))
	}
	return k, nil
}

// SetAside moves raft's files and id into a folder of their own, and returns
// what is kept by the new server of the same cluster that has this folder now.
func (d *Dir) SetAside(k Record, log zerolog.Logger, why error) (Record, error) {
	id, err := d.RaftID()
	if err != nil {
		return k, err
	}
	aside := filepath.Join(d.path, asideFolder(id))
	err = os.MkdirAll(aside, 0o700)
	// The id first: whatever stops this half-way, old data are never again under
	// the id for which they promised something.
	for _, name := range []string{raftIDFile, snapshotFolder, logFolder, recordFile} {
		if e := os.Rename(filepath.Join(d.path, name), filepath.Join(aside, name)); e != nil && !errors.Is(e, os.ErrNotExist) {
			err = errors.Join(err, e)
		}
		if err != nil {
			return k, fmt.Errorf("set old data aside: %w", err)
		}
	}
	if err := os.MkdirAll(d.LogPath(), 0o700); err != nil {
		return k, fmt.Errorf("set old data aside: %w", err)
	}
	log.Warn().Err(why).Str("folder", aside).Str("old", id).Msg("data set aside: this is a new server now")
	k.Started, k.Founders = false, nil
	return k, d.WriteRecord(k)
}

// LastIndex is up to where the log or a snapshot here goes, 0 for neither. The
// log is not in use.
func (d *Dir) LastIndex() (uint64, error) {
	if entries, err := os.ReadDir(d.LogPath()); err != nil || len(entries) == 0 {
		return 0, nil // there is none to open, and none is made
	}
	meta := new(metadb.BoltMetaDB)
	store, err := wal.Open(d.LogPath(), wal.WithMetaStore(meta), wal.WithLogger(hclog.NewNullLogger()))
	if err != nil {
		return 0, errors.Join(fmt.Errorf("open raft log in %s: %w", d.LogPath(), err), meta.Close())
	}
	index, err := store.LastIndex()
	if err = errors.Join(err, store.Close(), meta.Close()); err != nil {
		return 0, fmt.Errorf("read raft log in %s: %w", d.LogPath(), err)
	}
	snapshots, err := d.Snapshots(hclog.NewNullLogger())
	if err != nil {
		return 0, err
	}
	all, err := snapshots.List()
	if err != nil {
		return 0, fmt.Errorf("list snapshots in %s: %w", d.path, err)
	}
	for _, s := range all {
		index = max(index, s.Index)
	}
	return index, nil
}

// PutBack makes data that were set aside those of the folder again; what is
// there goes aside in their stead.
func (d *Dir) PutBack(aside string, log zerolog.Logger) error {
	from := filepath.Join(d.path, filepath.Base(aside))
	if _, err := os.Stat(filepath.Join(from, raftIDFile)); err != nil {
		return fmt.Errorf("find data that were set aside: %w", err)
	}
	k, err := d.ReadRecord()
	if err == nil {
		_, err = d.SetAside(k, log, errors.New("older data are put back by an operator"))
	}
	if err == nil {
		err = os.RemoveAll(d.LogPath()) // empty: SetAside has just made it
	}
	for _, name := range []string{recordFile, snapshotFolder, logFolder, raftIDFile} {
		if e := os.Rename(filepath.Join(from, name), filepath.Join(d.path, name)); e != nil && !errors.Is(e, os.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	if err != nil {
		return fmt.Errorf("put back the data in %s: %w", from, err)
	}
	return nil
}
