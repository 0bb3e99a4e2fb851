package tcp

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/tcp/internal/frame"
)

// shareDir is a directory as Options.ShareDir wants it, with a short path.
func shareDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "skerry")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// TestShareDir: ranks of one network namespace share memory as before, and leave
// nothing in the directory.
func TestShareDir(t *testing.T) {
	t.Parallel()
	dir := shareDir(t)
	w := newWorld(t, 2, Options{Transport: TransportShared, ShareDir: dir})
	w.configure(1)
	w.reduceOK(w.everybody(), 100_000)
	if names, err := os.ReadDir(dir); err != nil || len(names) != 2 {
		t.Errorf("%d sockets in the directory (%v), want 2", len(names), err)
	}
	for _, b := range w.backends {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 0 {
		t.Errorf("%d sockets are left (%v)", len(names), err)
	}
}

// TestDialShareDir: where the abstract socket is not seen, that in the directory is
// found, wherever it is mounted.
func TestDialShareDir(t *testing.T) {
	t.Parallel()
	dir, elsewhere := shareDir(t), filepath.Join(shareDir(t), "mount")
	if err := os.Symlink(dir, elsewhere); err != nil {
		t.Fatal(err)
	}
	name := sharePrefix + strings.Repeat("0", 2*frame.NonceBytes)
	b := New(Options{ShareDir: elsewhere})
	if c, err := b.dialShare(t.Context(), name); err == nil {
		t.Error("connected to nobody")
		c.Close()
	}
	ln, err := New(Options{ShareDir: dir}).listenShareDir(name)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	c, err := b.dialShare(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	for _, bad := range []string{"", "skerry-/../x", "../skerry-x", "x", "skerry-\x00", sharePrefix + strings.Repeat("x", 100)} {
		if validShareName(bad) {
			t.Errorf("%q is taken as a name", bad)
		}
	}
}

// TestShareDirRefused: what others can write to, or is no directory, is refused by
// name.
func TestShareDirRefused(t *testing.T) {
	t.Parallel()
	open, file := shareDir(t), filepath.Join(shareDir(t), "file")
	if err := os.Chmod(open, 0o770); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	long := filepath.Join(shareDir(t), strings.Repeat("x", 80))
	if err := os.Mkdir(long, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{open, file, long, filepath.Join(open, "missing")} {
		w := newWorld(t, 2, Options{ShareDir: dir})
		errs := w.tryConfigure(1, w.everybody(), func(int, *pg.Config) {})
		for r, err := range errs {
			if err == nil || !strings.Contains(err.Error(), dir) {
				t.Errorf("rank %d with %s: %v, want an error that names it", r, dir, err)
			}
		}
	}
}

// TestStaleSockets: sockets of the killed are removed, those that are heard on, or
// are young, or are none, stay.
func TestStaleSockets(t *testing.T) {
	t.Parallel()
	dir := shareDir(t)
	long := time.Now().Add(-time.Hour)
	bind := func(name string, heard bool, made time.Time) {
		path := sharePath(dir, sharePrefix+name)
		ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		ln.SetUnlinkOnClose(false)
		if heard {
			t.Cleanup(func() { ln.Close() })
		} else if err := ln.Close(); err != nil {
			t.Fatal(err)
		}
		at := unix.NsecToTimeval(made.UnixNano())
		if err := unix.Utimes(path, []unix.Timeval{at, at}); err != nil {
			t.Fatal(err)
		}
	}
	bind("alive", true, long)
	bind("killed", false, long)
	bind("young", false, time.Now())
	for _, name := range []string{sharePrefix + "file" + shareSuffix, "notes"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(filepath.Join(dir, name), long, long); err != nil {
			t.Fatal(err)
		}
	}
	removeStale(dir, time.Now().Add(-staleAfter))
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range left {
		names = append(names, e.Name())
	}
	if got, want := strings.Join(names, " "), "notes skerry-alive.sock skerry-file.sock skerry-young.sock"; got != want {
		t.Errorf("left are %s, want %s", got, want)
	}
}

// TestShareDirOfContainers: ranks in two network namespaces of one host share
// memory if they have a directory in common, and only then; a killed one leaves
// nothing that holds up the next.
func TestShareDirOfContainers(t *testing.T) {
	if testing.Short() {
		t.Skip("makes networks")
	}
	t.Parallel()
	h := newHosts(t)
	for dir, lanes := range map[string]int{"": 1, shareDir(t): 3} {
		ranks, o := h.fleet(nil)
		o.Opt.ShareDir = dir
		o.Opt.Interfaces = []string{"=" + storeLink}
		o.Q, o.Do = 1, "configure"
		orderAll(t, ranks, o)
		o.Do = "check"
		for i, a := range orderAll(t, ranks, o) {
			if a.Lanes != lanes {
				t.Errorf("directory %q: rank %d has %d lanes, want %d", dir, i, a.Lanes, lanes)
			}
		}
		killOne(t, ranks, o, 3)
		ranks[3] = startRank(t, "newcomer", envNetNS+"="+h.names[1])
		o.Q, o.Do = 2, "configure"
		orderAll(t, ranks, o)
		o.Do = "check"
		for i, a := range orderAll(t, ranks, o) {
			if a.Lanes != lanes {
				t.Errorf("directory %q, with a newcomer: rank %d has %d lanes, want %d", dir, i, a.Lanes, lanes)
			}
		}
		for _, r := range ranks {
			r.end()
		}
	}
}
