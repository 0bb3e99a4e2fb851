package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"
)

// The modes of a data dir: it holds quorums' tokens, and what a vote promised.
const (
	dirMode  = 0o700
	fileMode = 0o600

	// othersMay are the bits of a mode that give others than the owner anything.
	othersMay = 0o077
)

// ownFolder makes the folder at path, or takes the one that is there for this
// process's user alone, and returns where it is: links are followed once, here, so
// that a link that changes later leads nowhere else. A folder of another user is
// refused, and one in which another user has put something; one that others may
// read or write is closed to them, with a line in the log.
func ownFolder(path string, log zerolog.Logger) (string, error) {
	if err := os.MkdirAll(path, dirMode); err != nil {
		return "", fmt.Errorf("make data dir: %w", err)
	}
	at, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", fmt.Errorf("find data dir: %w", err)
	}
	mode, err := checkOwn(at)
	if err != nil {
		return "", err
	}
	if mode&othersMay == 0 {
		return at, nil
	}
	entries, err := os.ReadDir(at)
	if err != nil {
		return "", fmt.Errorf("read data dir: %w", err)
	}
	for _, e := range entries {
		if err := checkEntry(filepath.Join(at, e.Name())); err != nil {
			return "", err
		}
	}
	if err := os.Chmod(at, dirMode); err != nil {
		return "", fmt.Errorf("close data dir to others: %w", err)
	}
	log.Warn().Str("folder", at).Stringer("mode", mode).Msg("data dir was open to other users: it has mode 0700 now")
	return at, nil
}

// checkOwn wants a folder to be this process's user's, and returns its mode.
func checkOwn(path string) (fs.FileMode, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return 0, fmt.Errorf("look at data dir %s: %w", path, err)
	}
	mode := fs.FileMode(st.Mode).Perm()
	if uid := os.Geteuid(); int(st.Uid) != uid {
		return 0, fmt.Errorf("data dir %s (mode %04o) is of user %d, and this process runs as user %d: "+
			"run it as that user, or name a folder in it that does not exist yet", path, mode, st.Uid, uid)
	}
	return mode, nil
}

// checkEntry refuses what another user but root has put into a data dir.
func checkEntry(path string) error {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return fmt.Errorf("look at data dir: %w", err)
	}
	if uid := os.Geteuid(); int(st.Uid) != uid && st.Uid != 0 {
		return fmt.Errorf("%s is of user %d, in a data dir of user %d that was open to others: "+
			"look at what it is, and take it out", path, st.Uid, uid)
	}
	return nil
}

// tighten closes what this process's user has in a data dir to others: raft makes its
// snapshots readable to all. What another program takes away meanwhile is no error.
func tighten(path string) error {
	err := filepath.WalkDir(path, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return unlessGone(err)
		}
		info, err := e.Info()
		if err != nil {
			return unlessGone(err)
		}
		mode := fs.FileMode(fileMode)
		st, ok := info.Sys().(*syscall.Stat_t)
		mine := ok && int(st.Uid) == os.Geteuid()
		switch {
		case info.IsDir() && !mine:
			return fs.SkipDir // a file system's lost+found
		case !mine:
			return nil
		case info.IsDir():
			mode = dirMode
		case !info.Mode().IsRegular():
			return nil
		}
		if info.Mode().Perm()&othersMay == 0 {
			return nil
		}
		return unlessGone(os.Chmod(path, mode))
	})
	if err != nil {
		return fmt.Errorf("close data dir to others: %w", err)
	}
	return nil
}

// unlessGone drops the error of a file that is not there any more.
func unlessGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
