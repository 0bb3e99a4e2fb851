package baddays

import (
	"path/filepath"
	"testing"

	"github.com/skerry-ft/skerry/internal/testkit"
)

// patience bounds every wait; reaching it is a failure.
const patience = testkit.Patience

// builds are programs that all tests of this package share.
var builds testkit.Builds

// build compiles the programs, once, and returns their folder. flags are go build's.
func build(t *testing.T, flags ...string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("builds the programs: run without -short")
	}
	builds.Path(t, "cmd/lighthouse", flags...)
	return filepath.Dir(builds.Path(t, "examples/digits/trainer", flags...))
}
