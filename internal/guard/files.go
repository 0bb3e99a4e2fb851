package guard

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// maxFileBytes bounds a file of secrets or certificates.
const maxFileBytes = 1 << 20

// readFile reads a small regular file. Anything else, which could block or never
// end, is an error at once.
func readFile(path string) ([]byte, error) {
	// Without O_NONBLOCK the open of a pipe waits for its writer.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is %s, want a regular file", path, kindOf(info.Mode()))
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err == nil && len(b) > maxFileBytes {
		err = fmt.Errorf("%s has more than %d bytes", path, maxFileBytes)
	}
	return b, err
}

// kindOf names what is no regular file.
func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeNamedPipe != 0:
		return "a pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeDevice != 0:
		return "a device"
	}
	return "of type " + mode.Type().String()
}

// othersMayWrite are the bits of a mode by which others than the owner may write.
const othersMayWrite = 0o022

// checkFolder says why secrets must not be written into dir: others could put
// files of theirs in their place.
func checkFolder(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if mode := info.Mode().Perm(); mode&othersMayWrite != 0 {
		return fmt.Errorf("%s has mode %04o: others can put keys of theirs into it; want %04o at most: chmod go-w %s",
			dir, mode, mode&^othersMayWrite, dir)
	}
	return checkOwner(dir, info)
}

// checkSecret says why the file at path may be known to others, or be theirs.
func checkSecret(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return fmt.Errorf("%s has mode %04o: others can use it; want 0600: chmod 600 %s", path, mode, path)
	}
	return checkOwner(path, info)
}

// checkOwner wants a file to be this user's, or root's.
func checkOwner(path string, info fs.FileInfo) error {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return fmt.Errorf("look at %s: %w", path, err)
	}
	if uid := os.Geteuid(); int(st.Uid) != uid && st.Uid != 0 {
		return fmt.Errorf("%s (mode %04o) is of user %d, want it of user %d", path, info.Mode().Perm(), st.Uid, uid)
	}
	return nil
}

// replaceFile puts text at path: readers see the old file or the new one, never a
// part, and what somebody else laid there, a link or a file, is not written to.
func replaceFile(path string, text []byte, mode fs.FileMode) error {
	return place(path, text, mode, os.Rename)
}

// writeNew is replaceFile for a path at which nothing may be yet: os.ErrExist.
func writeNew(path string, text []byte, mode fs.FileMode) error {
	return place(path, text, mode, func(from, to string) error {
		return errors.Join(os.Link(from, to), os.Remove(from))
	})
}

// place makes a file beside path, for its owner alone until it is whole and on the
// disk, and has settle give it its name.
func place(path string, text []byte, mode fs.FileMode, settle func(from, to string) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // O_EXCL, 0600
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	if err := settle(f.Name(), path); err != nil {
		_ = os.Remove(f.Name()) // if it is there still
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
