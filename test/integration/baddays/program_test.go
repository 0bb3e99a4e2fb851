package baddays

import (
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/skerry-ft/skerry/internal/testkit"
)

// patience bounds every wait; reaching it is a failure.
const patience = testkit.Patience

// builds are programs that all tests of this package share.
var builds struct {
	sync.Mutex

	done map[string]string // folder by flags
}

// build compiles the programs, once, and returns their folder. flags are go build's.
func build(t *testing.T, flags ...string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("builds the programs: run without -short")
	}
	builds.Lock()
	defer builds.Unlock()
	key := strings.Join(flags, " ")
	if dir, ok := builds.done[key]; ok {
		return dir
	}
	dir, err := os.MkdirTemp("", "skerry-baddays-") //nolint:usetesting // it outlives the test
	if err != nil {
		t.Fatal(err)
	}
	removeAtEnd(dir)
	for _, command := range []string{"cmd/lighthouse", "examples/digits/trainer"} {
		testkit.Build(t, dir, command, flags...)
	}
	if builds.done == nil {
		builds.done = make(map[string]string)
	}
	builds.done[key] = dir
	return dir
}
