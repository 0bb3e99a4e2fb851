package testkit

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Build compiles a command of this module, named by its folder (cmd/lighthouse), into
// dir and returns the program's path. flags are go build's.
//
// It is go run, with cp for what runs the program: go run keeps what it links in Go's
// build cache, go build does not, and most packages that start programs start the same.
func Build(t testing.TB, dir, command string, flags ...string) string {
	t.Helper()
	out := filepath.Join(dir, filepath.Base(command))
	args := append(append([]string{"run", "-exec", "cp"}, flags...), "github.com/skerry-ft/skerry/"+command, out)
	if text, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", command, err, text)
	}
	return out
}

// Builds are commands of this module that all tests of a package share. The zero value
// has none. Safe for concurrent use.
type Builds struct {
	mu      sync.Mutex
	folder  string
	folders map[string]string // within it, by flags
}

// Path compiles a command as Build does, once for the same flags, and returns the
// program's path. Programs of the same flags are in one folder.
func (b *Builds) Path(t testing.TB, command string, flags ...string) string {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.folder == "" {
		folder, err := os.MkdirTemp("", "skerry-builds-")
		if err != nil {
			t.Fatal(err)
		}
		b.folder, b.folders = folder, make(map[string]string)
	}
	key := strings.Join(flags, " ")
	in, ok := b.folders[key]
	if !ok {
		in = filepath.Join(b.folder, fmt.Sprint(len(b.folders)))
		if err := os.Mkdir(in, 0o700); err != nil {
			t.Fatal(err)
		}
		b.folders[key] = in
	}
	path := filepath.Join(in, filepath.Base(command))
	if _, err := os.Stat(path); err == nil {
		return path
	}
	return Build(t, in, command, flags...)
}

// Remove deletes what was built. It is for TestMain, when all tests are over.
func (b *Builds) Remove() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return os.RemoveAll(b.folder)
}
