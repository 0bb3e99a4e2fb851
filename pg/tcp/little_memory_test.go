package tcp

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// said keeps what a rank process has logged. Safe for concurrent use.
type said struct {
	mu  sync.Mutex
	all bytes.Buffer
}

// Write takes a line.
func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all.String()
}

// limitMemory lets this process map so many bytes more than it has; 0: as many as it likes.
func limitMemory(more int) error {
	var pages uint64
	text, err := os.ReadFile("/proc/self/statm")
	if err == nil {
		_, err = fmt.Sscan(string(text), &pages)
	}
	limit := unix.Rlimit{Cur: pages*uint64(os.Getpagesize()) + uint64(more), Max: unix.RLIM_INFINITY}
	if more == 0 {
		limit.Cur = unix.RLIM_INFINITY
	}
	return errors.Join(err, unix.Prlimit(0, unix.RLIMIT_AS, &limit, nil))
}

// A rank that may map no more memory has sockets to its neighbours, on whichever side
// of the handshake it is, and says so in one line; the others share theirs.
func TestNoMemoryToShare(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a GiB of memory")
	}
	const ring, slack = 96 << 20, 150 << 20 // less than a segment of two rings, more than what Go's heap and threads grow by
	for poor := range 3 {
		t.Run(fmt.Sprint("rank ", poor), func(t *testing.T) {
			var ranks []*rankProcess
			for i := range 3 {
				// Else glibc maps 128 MiB for each thread that it comes to know.
				ranks = append(ranks, startRank(t, fmt.Sprintf("replica%d", i), "MALLOC_ARENA_MAX=1"))
			}
			ranks[0].send(t, order{Do: "serve", Listen: "127.0.0.1"})
			o := order{Store: ranks[0].receive(t).Store, Q: 1, Bytes: 4 << 20, Opt: rankOptions{RingBytes: ring, BeatTimeout: testTimeout}}
			limit := o
			limit.Do, limit.Bytes = "limit", slack
			ranks[poor].send(t, limit)
			if a := ranks[poor].receive(t); a.Err != "" {
				t.Fatal(a.Err)
			}
			o.Do = "configure"
			orderAll(t, ranks, o)
			o.Do = "check"
			for i, a := range orderAll(t, ranks, o) {
				lanes := 1
				if i == poor {
					lanes = 0
				}
				if a.Lanes != lanes {
					t.Errorf("rank %d shares memory with %d ranks, want %d", i, a.Lanes, lanes)
				}
				if i == poor && (strings.Count(a.Said, "sockets instead") != 1 || !strings.Contains(a.Said, "cannot allocate memory")) {
					t.Errorf("rank %d said %q, want one line that says why", i, a.Said)
				}
			}
		})
	}
}

// envShm makes a test process have another /dev/shm: "gone", "read-only" or "full".
const envShm = "SKERRY_TCP_TEST_SHM"

// enterShm gives this process a mount namespace with that /dev/shm.
func enterShm() {
	kind := os.Getenv(envShm)
	if kind == "" {
		return
	}
	runtime.LockOSThread() // of all threads, exec keeps this one's namespace
	self, err := os.Executable()
	if err == nil {
		err = errors.Join(os.Unsetenv(envShm), unix.Unshare(unix.CLONE_NEWNS), unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	}
	if err == nil {
		err = changeShm(kind)
	}
	if err == nil {
		err = syscall.Exec(self, os.Args, os.Environ())
	}
	fmt.Fprintf(os.Stderr, "make /dev/shm %s: %v\n", kind, err)
	os.Exit(1)
}

func changeShm(kind string) error {
	const shm = "/dev/shm"
	switch kind {
	case "gone": // /dev without it
		return unix.Mount("tmpfs", "/dev", "tmpfs", unix.MS_RDONLY, "size=4k")
	case "read-only":
		return unix.Mount("tmpfs", shm, "tmpfs", unix.MS_RDONLY, "size=4k")
	}
	if err := unix.Mount("tmpfs", shm, "tmpfs", 0, "size=4k"); err != nil {
		return err
	}
	err := os.WriteFile(filepath.Join(shm, "filler"), make([]byte, 64<<10), 0o600)
	if !errors.Is(err, unix.ENOSPC) {
		return fmt.Errorf("fill %s: %w", shm, err)
	}
	return nil
}

// Shared memory is the kernel's own: a /dev/shm that is missing, read-only or full is
// nothing to it.
func TestSharedWithoutDevShm(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("mount namespaces take root: sudo go test -run TestSharedWithoutDevShm ./pg/tcp")
	}
	for _, kind := range []string{"gone", "read-only", "full"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			var ranks []*rankProcess
			for i := range 2 {
				ranks = append(ranks, startRank(t, fmt.Sprintf("replica%d", i), envShm+"="+kind))
			}
			ranks[0].send(t, order{Do: "serve", Listen: "127.0.0.1"})
			o := order{
				Store: ranks[0].receive(t).Store, Q: 1, Bytes: 4 << 20,
				Opt: rankOptions{Transport: TransportShared, BeatTimeout: testTimeout},
			}
			o.Do = "configure"
			orderAll(t, ranks, o)
			o.Do = "check"
			for i, a := range orderAll(t, ranks, o) {
				if a.Lanes != 1 {
					t.Errorf("rank %d shares memory with %d ranks, want 1", i, a.Lanes)
				}
			}
		})
	}
}
