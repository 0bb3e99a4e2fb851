package lighthouse

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/internal/paralleltest"
	"github.com/skerry-ft/skerry/internal/testkit"
)

// How many tests run at a time, unless -parallel says otherwise. Those in real time
// wait for timeouts and disks rather than compute, so the usual number, that of the
// processors, leaves the machine idle.
const (
	testsAtOnce     = 8
	testsAtOnceRace = 4
)

func TestMain(m *testing.M) {
	n := testsAtOnce
	if testkit.RaceEnabled {
		n = testsAtOnceRace
	}
	paralleltest.AtOnce(n)
	goleak.VerifyTestMain(m)
}
