package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"
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

// dataDir is a folder that one server holds. It is owned by one goroutine.
type dataDir struct {
	path string
	lock *os.File
}

// openDataDir makes the folder if it is missing, takes it for this process's user
// alone, and locks it. The lock goes with the process, so a crash leaves none behind.
func openDataDir(path string, log zerolog.Logger) (*dataDir, error) {
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
	return &dataDir{path: path, lock: lock}, nil
}

// logPath is where the raft log lives.
func (d *dataDir) logPath() string { return filepath.Join(d.path, logFolder) }

// raftID returns the id kept in the folder, or draws one and keeps it: a raft
// id is never reused, so an empty folder is a new server.
func (d *dataDir) raftID() (string, error) {
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
	if err := writeDurably(path, id+"\n"); err != nil {
		return "", fmt.Errorf("keep raft id: %w", err)
	}
	return id, nil
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

// close gives the folder back.
func (d *dataDir) close() error { return d.lock.Close() }
