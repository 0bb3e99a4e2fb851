package baddays

import (
	"flag"
	"path/filepath"
	"testing"

	"github.com/skerry-ft/skerry/internal/testkit"
)

// patience bounds every wait; reaching it is a failure.
const patience = testkit.Patience

// builds are programs that all tests of this package share.
var builds testkit.Builds

// clocks builds programs whose wall clocks can be made to jump.
var clocks testkit.Clocks

var withClocks = flag.Bool("baddays.clocks", false, "run the tests whose programs have a wall clock that can be made to jump")

// jumpy is build for programs with such clocks.
func jumpy(t *testing.T) string {
	t.Helper()
	if !*withClocks {
		t.Skip("builds the programs and the standard library anew: run with -baddays.clocks, or make clocks")
	}
	return build(t, clocks.Flags(t)...)
}

// build compiles the programs, once, and returns their folder. flags are go build's.
func build(t *testing.T, flags ...string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("builds the programs: run without -short")
	}
	builds.Path(t, "cmd/lighthouse", flags...)
	return filepath.Dir(builds.Path(t, "examples/digits/trainer", flags...))
}
