package baddays

import (
	"encoding/binary"
	"encoding/json"
	"flag"
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

var clocks = flag.Bool("baddays.clocks", false, "run the tests whose programs have a wall clock that can be made to jump")

var overlay struct {
	sync.Mutex

	folder string // empty: it is yet to be made
	path   string // within it
}

// jumpy builds the programs so that their wall clocks can be made to jump, by
// wall.jump; their monotonic clocks are the machine's. No product code knows of it.
func jumpy(t *testing.T) string {
	t.Helper()
	if !*clocks {
		t.Skip("builds the programs and the standard library anew: run with -baddays.clocks, or make clocks")
	}
	overlay.Lock()
	defer overlay.Unlock()
	if overlay.path == "" {
		overlay.path = writeOverlay(t)
	}
	return build(t, "-overlay", overlay.path)
}

func writeOverlay(t *testing.T) string {
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
	dir, err := os.MkdirTemp("", "skerry-baddays-") //nolint:usetesting // it outlives the test
	if err != nil {
		t.Fatal(err)
	}
	overlay.folder = dir
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
	return write("overlay.json", string(replace))
}

// wall is the wall clock of one or more processes.
type wall struct {
	t    *testing.T
	file string
}

func newWall(t *testing.T) *wall {
	t.Helper()
	w := &wall{t: t, file: filepath.Join(t.TempDir(), "wall")}
	w.jump(0)
	return w
}

// env makes a process go by the clock.
func (w *wall) env() string { return envWall + "=" + w.file }

// jump sets the clock to what is so far off the machine's.
func (w *wall) jump(off time.Duration) {
	w.t.Helper()
	f, err := os.OpenFile(w.file, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		w.t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // the write below tells
	if _, err := f.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(int64(off/time.Second))), 0); err != nil {
		w.t.Fatal(err)
	}
}
