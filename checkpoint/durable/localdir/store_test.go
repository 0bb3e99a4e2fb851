package localdir_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/checkpoint/durable"
	"github.com/skerry-ft/skerry/checkpoint/durable/durabletest"
	"github.com/skerry-ft/skerry/checkpoint/durable/localdir"
)

// openDir opens a directory until the test ends.
func openDir(t testing.TB, cfg localdir.Config) *localdir.Store {
	t.Helper()
	d, err := localdir.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func TestContract(t *testing.T) {
	t.Parallel()
	durabletest.Run(t, func(t *testing.T) durable.Store {
		return openDir(t, localdir.Config{Path: filepath.Join(filepath.Dir(t.TempDir()), "same", "deep")})
	})
}

// What a process left that died in a Put is listed by no store, and goes after a day.
func TestSweep(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	d := openDir(t, localdir.Config{Path: path})
	durabletest.Put(t, d, "a/b", "x")
	for name, age := range map[string]time.Duration{"old": 25 * time.Hour, "new": time.Hour} {
		file := filepath.Join(path, ".tmp", name)
		if err := os.WriteFile(file, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, time.Time{}, time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	openDir(t, localdir.Config{Path: path})
	left, err := os.ReadDir(filepath.Join(path, ".tmp"))
	if err != nil || len(left) != 1 || left[0].Name() != "new" {
		t.Errorf("left %v, %v, want the new one only", left, err)
	}
	if names := durabletest.Names(t, d, ""); len(names) != 1 {
		t.Errorf("listed %q, want a/b", names)
	}
}

func TestReadOnly(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	durabletest.Put(t, openDir(t, localdir.Config{Path: path}), "a/b", "x")
	d := openDir(t, localdir.Config{Path: path, ReadOnly: true})
	if got := durabletest.Text(t, d, "a/b"); got != "x" {
		t.Errorf("read %q", got)
	}
	if err := d.Put(t.Context(), "a/c", 1, strings.NewReader("x")); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("put: %v, want fs.ErrPermission", err)
	}
	if err := d.Delete(t.Context(), "a/b"); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("delete: %v, want fs.ErrPermission", err)
	}
	if _, err := localdir.New(localdir.Config{Path: filepath.Join(path, "none"), ReadOnly: true}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory that is not there: %v, want fs.ErrNotExist", err)
	}
	if _, err := localdir.New(localdir.Config{}); err == nil || !strings.Contains(err.Error(), `Path = "", want`) {
		t.Errorf("no path: %v", err)
	}
}

// Links that lead out of the directory are not followed, and not listed.
func TestStaysInside(t *testing.T) {
	t.Parallel()
	outside, path := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("s"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(path, "link")); err != nil {
		t.Fatal(err)
	}
	d := openDir(t, localdir.Config{Path: path})
	if r, err := d.Get(t.Context(), "link/secret"); err == nil {
		_ = r.Close() // it should not have been opened
		t.Error("a file outside is opened")
	}
	if err := d.Put(t.Context(), "link/new", 1, strings.NewReader("x")); err == nil {
		t.Error("a file outside is written")
	}
	if names := durabletest.Names(t, d, ""); len(names) != 0 {
		t.Errorf("listed %q", names)
	}
}

// An empty folder does not outlive its last file.
func TestDeletesFolders(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	d := openDir(t, localdir.Config{Path: path})
	durabletest.Put(t, d, "a/b/c", "x")
	if err := d.Delete(t.Context(), "a/b/c"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(path, "a")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder: %v, want fs.ErrNotExist", err)
	}
}

// A file that another process deletes as soon as it has its name, and its folder with it,
// has been put.
func TestPutBesideDelete(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	d := openDir(t, localdir.Config{Path: path})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 300 {
			if err := d.Put(t.Context(), "a/b", 1, strings.NewReader("x")); err != nil {
				t.Error(err)
			}
		}
	}()
	for {
		select {
		case <-done:
			return
		default:
		}
		if err := os.Remove(filepath.Join(path, "a", "b")); err == nil {
			_ = os.Remove(filepath.Join(path, "a")) // unless the next one is there
		}
	}
}
