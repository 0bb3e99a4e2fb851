package chaos

import (
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/skerry-ft/skerry/internal/testkit"
)

// earliest is the commit whose programs are the oldest that may run beside this tree's: the
// one behind which all proofs are made in one way. See docs/OPERATIONS.md.
//
//go:embed testdata/earliest
var earliest string

var (
	withClocks  = flag.Bool("chaos.clocks", false, "build the programs of TestRandom so that their wall clocks can be made to jump")
	withEarlier = flag.Bool("chaos.earlier", false, "let TestRandom upgrade from the commit in testdata/earliest, and go back to it, in mid-run")
)

// programs are what the processes of a soak are made of.
type programs struct {
	version    string
	lighthouse string
	counter    string // empty: this test's own
	alone      error  // of this tree's: why there are no earlier ones; nil: there are
}

// builds are the programs that all tests of this package share; see TestMain.
var builds struct {
	mu     sync.Mutex
	kit    testkit.Builds
	clocks testkit.Clocks
	folder string // of what kit does not build
	all    []programs
}

// removeBuilds is for TestMain, when all tests are over.
func removeBuilds() error {
	return errors.Join(builds.kit.Remove(), builds.clocks.Remove(), os.RemoveAll(builds.folder))
}

// build makes this tree's programs, and behind them those of the earlier one, if there are to be some.
func build(t *testing.T) []programs {
	t.Helper()
	builds.mu.Lock()
	defer builds.mu.Unlock()
	if builds.all != nil {
		return builds.all
	}
	folder, err := os.MkdirTemp("", "skerry-chaos-") //nolint:usetesting // it outlives the test
	if err != nil {
		t.Fatal(err)
	}
	builds.folder = folder
	var flags []string
	now := programs{version: "this tree"}
	if *withClocks {
		flags = builds.clocks.Flags(t)
		now.counter = filepath.Join(folder, "counter")
		command(t, ".", "go", append(append([]string{"test", "-c", "-vet=off", "-trimpath"}, flags...), "-o", now.counter, ".")...)
	}
	now.lighthouse = builds.kit.Path(t, "cmd/lighthouse", flags...)
	if now.alone = lacksEarlier(t); now.alone != nil {
		builds.all = []programs{now}
	} else {
		builds.all = []programs{now, buildEarlier(t, folder, flags)}
	}
	return builds.all
}

// lacksEarlier is why no earlier programs are to be built, or cannot be. A clone without their
// commit still gets all that needs no second build.
func lacksEarlier(t *testing.T) error {
	if !*withEarlier {
		return errors.New("no earlier programs were asked for: -chaos.earlier")
	}
	commit := strings.TrimSpace(earliest)
	if err := exec.CommandContext(t.Context(), "git", "cat-file", "-e", commit+"^{commit}").Run(); err != nil {
		err = fmt.Errorf("this clone has no commit %s, which -chaos.earlier builds: git fetch --unshallow: %w", commit, err)
		t.Log(err)
		return err
	}
	return nil
}

// buildEarlier makes the programs of the earliest commit. Its counter is this tree's source,
// which an older tree compiles, too.
func buildEarlier(t *testing.T, folder string, flags []string) programs {
	t.Helper()
	commit := strings.TrimSpace(earliest)
	tree := filepath.Join(folder, "tree")
	root := command(t, ".", "git", "rev-parse", "--show-toplevel")
	archive := filepath.Join(folder, "tree.tar")
	command(t, root, "git", "archive", "-o", archive, commit)
	at := filepath.Join(tree, "test", "earlier")
	if err := errors.Join(os.MkdirAll(at, 0o700), os.WriteFile(filepath.Join(at, "main_test.go"), []byte(earlierMain), 0o600)); err != nil {
		t.Fatal(err)
	}
	command(t, tree, "tar", "-xf", archive)
	for _, name := range []string{"counter_test.go", "speech_test.go"} {
		text, err := os.ReadFile(name)
		if err == nil {
			err = os.WriteFile(filepath.Join(at, name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	p := programs{version: commit, lighthouse: filepath.Join(folder, "earlier-lighthouse"), counter: filepath.Join(folder, "earlier-counter")}
	command(t, tree, "go", append(append([]string{"build", "-trimpath"}, flags...), "-o", p.lighthouse, "./cmd/lighthouse")...)
	command(t, tree, "go", append(append([]string{"test", "-c", "-vet=off", "-trimpath"}, flags...), "-o", p.counter, "./test/earlier")...)
	return p
}

// earlierMain makes the counter a program of an earlier tree's.
const earlierMain = `package chaos

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/skerry-ft/skerry/pg/baby"
	"github.com/skerry-ft/skerry/pg/tcp"
	"github.com/skerry-ft/skerry/train/spawn"
)

func TestMain(*testing.M) {
	spawn.Register(counterWorker, count)
	if err := errors.Join(tcp.Register(), baby.Register(tcp.Name)); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	baby.Init()
	os.Exit(1)
}
`

// command runs one to its end, and returns what it says.
func command(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatal(fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out))
	}
	return strings.TrimSpace(string(out))
}
