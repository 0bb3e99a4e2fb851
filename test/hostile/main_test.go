package hostile

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/internal/paralleltest"
	"github.com/skerry-ft/skerry/internal/testkit"
)

// testsAtOnce is how many tests run at a time, unless -parallel says otherwise. Each
// has victims of its own, in processes, and waits for deadlines rather than computes.
const testsAtOnce = 8

func TestMain(m *testing.M) {
	if options := os.Getenv(victimEnv); options != "" {
		if err := serveVictim(options); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	paralleltest.AtOnce(testsAtOnce)
	goleak.VerifyTestMain(m, goleak.Cleanup(func(status int) {
		if err := os.RemoveAll(builds.folder); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(status)
	}))
}

// builds are programs that all tests of this package share.
var builds struct {
	sync.Mutex

	folder string
	paths  map[string]string // by package
}

// build compiles a program of the module, once, and returns its path.
func build(t *testing.T, dir string) string {
	t.Helper()
	builds.Lock()
	defer builds.Unlock()
	if built, ok := builds.paths[dir]; ok {
		return built
	}
	if builds.folder == "" {
		folder, err := os.MkdirTemp("", "skerry-hostile-") //nolint:usetesting // it outlives the test
		if err != nil {
			t.Fatal(err)
		}
		builds.folder, builds.paths = folder, make(map[string]string)
	}
	built := testkit.Build(t, builds.folder, dir)
	builds.paths[dir] = built
	return built
}
