package dist_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/dist"
	"github.com/skerry-ft/skerry/pg/debug"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/store"
)

// debugChild marks the process that TestDebugVariablesSpeak starts.
const debugChild = "SKERRY_TEST_DEBUG_CHILD"

// The debug variables work in a program that gives Init no logger: what they ask for is on
// standard error. Without them nothing is.
func TestDebugVariablesSpeak(t *testing.T) {
	if os.Getenv(debugChild) != "" {
		initAlone(t)
		return
	}
	for level, says := range map[string]bool{"OFF": false, "INFO": true, "DETAIL": true} {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestDebugVariablesSpeak$", "-test.timeout=30s")
		child.Env = append(os.Environ(), debugChild+"=1", debug.EnvTorchLevel+"="+level)
		var out, log strings.Builder
		child.Stdout, child.Stderr = &out, &log
		if err := child.Run(); err != nil {
			t.Fatalf("%s: %v\n%s%s", level, err, &out, &log)
		}
		for _, want := range []string{"group configured", "group closed", `"kind":"barrier"`, `"debug":"` + level + `"`} {
			if strings.Contains(log.String(), want) != says {
				t.Errorf("%s: standard error has %q: %t, want %t\n%s", level, want, !says, says, &log)
			}
		}
	}
}

// initAlone is a program with a world of one rank.
func initAlone(t *testing.T) {
	hash := store.NewHash()
	defer hash.Close()
	w, err := dist.Init(t.Context(), dist.InitConfig{Backend: pgtest.MemoryDriver(t), Store: hash, Rank: new(0), WorldSize: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Barrier(t.Context()); err != nil {
		t.Error(err)
	}
	if err := w.Destroy(); err != nil {
		t.Error(err)
	}
}
