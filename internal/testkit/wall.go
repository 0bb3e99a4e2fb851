package testkit

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// envWall names the file by which a program's wall clock is off.
const envWall = "SKERRY_TEST_WALL"

// offsetSource is what is added to package time.
const offsetSource = `package time

import (
	"sync/atomic"
	"syscall"
	"unsafe"
)

var wallOffset = mapWall()

func mapWall() *int64 {
	name, ok := syscall.Getenv("` + envWall + `")
	if !ok {
		return new(int64)
	}
	fd, err := syscall.Open(name, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		panic("time: open " + name + ": " + err.Error())
	}
	page, err := syscall.Mmap(fd, 0, 8, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		panic("time: map " + name + ": " + err.Error())
	}
	return (*int64)(unsafe.Pointer(&page[0]))
}

func wallSeconds() int64 { return atomic.LoadInt64(wallOffset) }
`

// The one line of package time that reads the clock, and what comes behind it.
const (
	readsClock = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	jumpsClock = "\tsec += wallSeconds()\n"
)

// Clocks builds programs whose wall clocks can be made to jump, by Wall.Jump; their
// monotonic clocks are the machine's. No product code knows of it. The zero value is ready.
// Safe for concurrent use.
type Clocks struct {
	mu     sync.Mutex
	folder string // empty: it is yet to be made
	path   string // within it
}

// Flags are those of go build that such a program is built with.
func (c *Clocks) Flags(t testing.TB) []string {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.path == "" {
		c.writeOverlay(t)
	}
	return []string{"-overlay", c.path}
}

// Remove deletes what was written. It is for TestMain, when all tests are over.
func (c *Clocks) Remove() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return os.RemoveAll(c.folder)
}

func (c *Clocks) writeOverlay(t testing.TB) {
	t.Helper()
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	source := filepath.Join(strings.TrimSpace(string(root)), "src", "time")
	text, err := os.ReadFile(filepath.Join(source, "time.go"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(text), readsClock) != 1 {
		t.Fatalf("%s/time.go does not read the clock by %q: make readsClock what it does in this Go", source, readsClock)
	}
	dir, err := os.MkdirTemp("", "skerry-clocks-") // it outlives the test
	if err != nil {
		t.Fatal(err)
	}
	c.folder = dir
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {
		filepath.Join(source, "time.go"):        write("time.go", strings.Replace(string(text), readsClock, readsClock+jumpsClock, 1)),
		filepath.Join(source, "skerry_wall.go"): write("skerry_wall.go", offsetSource),
	}})
	if err != nil {
		t.Fatal(err)
	}
	c.path = write("overlay.json", string(replace))
}

// Wall is the wall clock of one or more processes that were built by Clocks.
type Wall struct {
	file string
}

// NewWall makes one that is right.
func NewWall(t testing.TB) *Wall {
	t.Helper()
	w := &Wall{file: filepath.Join(t.TempDir(), "wall")}
	w.Jump(t, 0)
	return w
}

// Env makes a process go by the clock.
func (w *Wall) Env() string { return envWall + "=" + w.file }

// Jump sets the clock to what is so far off the machine's.
func (w *Wall) Jump(t testing.TB, off time.Duration) {
	t.Helper()
	f, err := os.OpenFile(w.file, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // the write below tells
	if _, err := f.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(int64(off/time.Second))), 0); err != nil {
		t.Fatal(err)
	}
}
