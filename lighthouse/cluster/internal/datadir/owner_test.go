package datadir

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"
)

// opened opens and closes a data dir, and returns where it is and what was logged.
func opened(path string) (at, logged string, err error) {
	var out bytes.Buffer
	d, err := Open(path, zerolog.New(&out))
	if err != nil {
		return "", out.String(), err
	}
	return d.path, out.String(), d.Close()
}

// assertPrivate wants all folders below path to have mode 0700, and files 0600.
func assertPrivate(t *testing.T, path string) {
	t.Helper()
	err := filepath.WalkDir(path, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil && info.Mode().Perm()&othersMay != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestDataDirIsPrivate: a data dir that others may read or write is closed to them,
// with all that is in it, and the log says so; so is what raft writes there.
func TestDataDirIsPrivate(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	snapshot := filepath.Join(dir, snapshotFolder, "1-2-3")
	for _, step := range []error{
		os.MkdirAll(snapshot, 0o755), os.MkdirAll(filepath.Join(dir, logFolder), 0o755),
		os.WriteFile(filepath.Join(snapshot, "state.bin"), []byte("tokens"), 0o644),
		os.WriteFile(filepath.Join(dir, logFolder, "1.wal"), nil, 0o664),
		os.Chmod(dir, 0o777),
	} {
		if step != nil {
			t.Fatal(step)
		}
	}
	_, logged, err := opened(dir)
	if err != nil || !strings.Contains(logged, "-rwxrwxrwx") {
		t.Errorf("log %q, %v; want a line with the mode that it had", logged, err)
	}
	assertPrivate(t, dir)
	if _, logged, err = opened(dir); err != nil || logged != "" {
		t.Errorf("the second time: log %q, %v", logged, err)
	}
}

// TestDataDirOfAnother: a folder of another user, and one that was open and has
// something of another user in it, are refused, and nothing in them is touched.
func TestDataDirOfAnother(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		if _, _, err := opened("/"); err == nil || !strings.Contains(err.Error(), "is of user 0") {
			t.Errorf("a folder of root's: %v", err)
		}
		t.Skip("the rest gives files to another user, which is root's to do")
	}
	const nobody = 65534
	theirs, planted := t.TempDir(), t.TempDir()
	if err := os.Chown(theirs, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	if _, _, err := opened(theirs); err == nil || !strings.Contains(err.Error(), "is of user 65534, and this process runs as user 0") {
		t.Errorf("a folder of another user: %v", err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(theirs, link); err != nil {
		t.Fatal(err)
	}
	if _, _, err := opened(link); err == nil || !strings.Contains(err.Error(), "is of user 65534") {
		t.Errorf("a link to a folder of another user: %v", err)
	}
	if entries, err := os.ReadDir(theirs); err != nil || len(entries) != 0 {
		t.Errorf("%d files were made in it, %v", len(entries), err)
	}
	lock := filepath.Join(planted, lockFile)
	if err := os.Chmod(planted, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", lock); err != nil {
		t.Fatal(err)
	}
	if err := os.Lchown(lock, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	if _, _, err := opened(planted); err == nil || !strings.Contains(err.Error(), lock+" is of user 65534") {
		t.Errorf("another user's link in an open folder: %v", err)
	}
}

// TestDataDirByALink: the data are where the link leads when the server starts.
func TestDataDirByALink(t *testing.T) {
	t.Parallel()
	dir, link := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "link")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	want, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	if at, _, err := opened(link); err != nil || at != want {
		t.Errorf("at %q, %v; want %q", at, err, want)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, _, err := opened(link); err == nil || !strings.Contains(err.Error(), link) {
		t.Errorf("a link that leads nowhere: %v, want an error that names it", err)
	}
}
