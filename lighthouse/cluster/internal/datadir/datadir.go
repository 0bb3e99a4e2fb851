// Package datadir is the folder in which one lighthouse server keeps what it promised:
// its raft log and snapshots, its raft id, and how it stands to its cluster. One
// process holds it at a time; it is closed to other users; and data that are not what
// they were are set aside, because a voter that forgets can undo what was committed.
// It has no goroutines. All calls read and write the disk, and return when that does.
package datadir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"
)

// The files of a data dir, beside raft's own.
const (
	lockFile   = "lock"
	raftIDFile = "raft-id"
	logFolder  = "log"

	snapshotFolder = "snapshots" // raft's own name for it
)

// snapshotsKept is how many snapshots a data dir holds.
const snapshotsKept = 2

// Dir is a folder that one server holds. It is owned by one goroutine.
type Dir struct {
	path string
	lock *os.File
}

// Open makes the folder if it is missing, takes it for this process's user
// alone, and locks it. The lock goes with the process, so a crash leaves none behind.
func Open(path string, log zerolog.Logger) (*Dir, error) {
	path, err := ownFolder(path, log)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(path, logFolder), dirMode); err != nil {
		return nil, fmt.Errorf("make data dir: %w", err)
	}
	if err := tighten(path); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(path, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock data dir: %w", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = lock.Close() // we report why it is of no use
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("data dir %s is in use by another lighthouse", path)
		}
		return nil, fmt.Errorf("lock data dir %s: %w", path, err)
	}
	return &Dir{path: path, lock: lock}, nil
}

// Path is where the folder is, links followed.
func (d *Dir) Path() string { return d.path }

// LogPath is where the raft log lives.
func (d *Dir) LogPath() string { return filepath.Join(d.path, logFolder) }

// RaftID returns the id kept in the folder, or draws one and keeps it: a raft
// id is never reused, so an empty folder is a new server.
func (d *Dir) RaftID() (string, error) {
	path := filepath.Join(d.path, raftIDFile)
	data, err := os.ReadFile(path)
	switch {
	case err == nil:
		id, err := uuid.Parse(strings.TrimSpace(string(data)))
		if err != nil {
			return "", fmt.Errorf("read raft id from %s: %w", path, err)
		}
		return id.String(), nil
	case !errors.Is(err, os.ErrNotExist):
		return "", fmt.Errorf("read raft id: %w", err)
	}
	id := uuid.NewString()
	return id, d.KeepRaftID(id)
}

// KeepRaftID makes id the folder's raft id.
func (d *Dir) KeepRaftID(id string) error {
	if err := writeDurably(filepath.Join(d.path, raftIDFile), id+"\n"); err != nil {
		return fmt.Errorf("keep raft id: %w", err)
	}
	return nil
}

// Snapshots opens raft's snapshots, closed to other users: raft makes them readable to
// all.
func (d *Dir) Snapshots(log hclog.Logger) (raft.SnapshotStore, error) {
	snapshots, err := raft.NewFileSnapshotStoreWithLogger(d.path, snapshotsKept, log)
	if err != nil {
		return nil, fmt.Errorf("open snapshots in %s: %w", d.path, err)
	}
	if err := tighten(filepath.Join(d.path, snapshotFolder)); err != nil {
		return nil, err
	}
	return snapshotFiles{snapshots, d.path}, nil
}

// writeDurably makes a file with this text that a crash leaves whole or absent.
func writeDurably(path, text string) error {
	tmp := path + ".new"
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// Close gives the folder back.
func (d *Dir) Close() error { return d.lock.Close() }
