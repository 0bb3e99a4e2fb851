package memfd_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/skerry-ft/skerry/internal/memfd"
)

func create(t *testing.T, size int) *memfd.Segment {
	t.Helper()
	s, err := memfd.Create("test", size)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// dup is what another process would receive.
func dup(t *testing.T, f *os.File) *os.File {
	t.Helper()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fd), "dup")
}

func TestSharedBytes(t *testing.T) {
	t.Parallel()
	a := create(t, 10_000)
	b, err := memfd.FromFile(dup(t, a.File()))
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Bytes()) != 10_000 || len(b.Bytes()) != 10_000 {
		t.Fatalf("lengths %d and %d, want 10000", len(a.Bytes()), len(b.Bytes()))
	}
	a.Bytes()[9_999] = 7
	if got := b.Bytes()[9_999]; got != 7 {
		t.Errorf("the other mapping has %d, want 7", got)
	}
	if err := errors.Join(b.Close(), b.Close()); err != nil {
		t.Errorf("close twice: %v", err)
	}
	if b.Bytes() != nil {
		t.Error("bytes after Close")
	}
	if a.Bytes()[9_999] != 7 {
		t.Error("closing one mapping spoiled the other")
	}
}

func TestSealed(t *testing.T) {
	t.Parallel()
	f := create(t, 4096).File()
	for _, size := range []int64{0, 4095, 4097} {
		if err := f.Truncate(size); !errors.Is(err, unix.EPERM) {
			t.Errorf("truncate to %d: %v, want EPERM", size, err)
		}
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_WRITE); !errors.Is(err, unix.EPERM) {
		t.Errorf("another seal: %v, want EPERM", err)
	}
}

// The memory is there from the beginning: else touching it where there is too little
// would be a SIGBUS.
func TestMemoryIsTakenAtOnce(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 10_000, 33 << 20} {
		var st unix.Stat_t
		if err := unix.Fstat(int(create(t, size).File().Fd()), &st); err != nil {
			t.Fatal(err)
		}
		if got := st.Blocks * 512; got < int64(size) {
			t.Errorf("a segment of %d bytes has memory for %d", size, got)
		}
	}
}

func TestSizes(t *testing.T) {
	t.Parallel()
	for _, size := range []int{-1, 0, memfd.MaxBytes + 1} {
		if s, err := memfd.Create("test", size); err == nil {
			t.Errorf("size %d: no error", size)
			s.Close()
		}
	}
	if _, err := memfd.Create(strings.Repeat("x", 250), 1); err == nil {
		t.Error("name of 250 bytes: no error")
	}
}

func TestFromFileRefuses(t *testing.T) {
	t.Parallel()
	raw := func(size int64, seals int) *os.File {
		fd, err := unix.MemfdCreate("raw", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Ftruncate(fd, size); err != nil {
			t.Fatal(err)
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
			t.Fatal(err)
		}
		return os.NewFile(uintptr(fd), "raw")
	}
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, make([]byte, 4096), 0o600); err != nil {
		t.Fatal(err)
	}
	ordinary, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	const full = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	for name, c := range map[string]struct {
		f        *os.File
		unsealed bool
	}{
		"ordinary file":   {ordinary, true},
		"no seals":        {raw(4096, 0), true},
		"may shrink":      {raw(4096, unix.F_SEAL_GROW|unix.F_SEAL_SEAL), true},
		"may take seals":  {raw(4096, unix.F_SEAL_GROW|unix.F_SEAL_SHRINK), true},
		"no bytes":        {raw(0, full), false},
		"too many":        {raw(memfd.MaxBytes+1, full), false},
		"never writeable": {raw(4096, full|unix.F_SEAL_FUTURE_WRITE), false},
	} {
		s, err := memfd.FromFile(c.f)
		if err == nil {
			t.Errorf("%s: taken", name)
			s.Close()
			continue
		}
		if got := errors.Is(err, memfd.ErrUnsealed); got != c.unsealed {
			t.Errorf("%s: %v; ErrUnsealed is %t, want %t", name, err, got, c.unsealed)
		}
		if err := c.f.Close(); err != nil {
			t.Errorf("%s: the file was closed for its owner: %v", name, err)
		}
	}
}

// TestHugePagesRefused: their maker could take pages back, and touching one that
// cannot be had again kills who maps it.
func TestHugePagesRefused(t *testing.T) {
	t.Parallel()
	fd, err := unix.MemfdCreate("huge", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_HUGETLB)
	if err != nil {
		t.Skipf("no huge pages here: %v", err)
	}
	f := os.NewFile(uintptr(fd), "huge")
	defer f.Close()
	if err := unix.Ftruncate(fd, 2<<20); err != nil {
		t.Skipf("no huge page of 2 MiB here: %v", err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL); err != nil {
		t.Fatal(err)
	}
	if s, err := memfd.FromFile(f); err == nil {
		t.Error("taken")
		s.Close()
	} else if !strings.Contains(err.Error(), "huge") {
		t.Errorf("%v, want an error that names huge pages", err)
	}
}
