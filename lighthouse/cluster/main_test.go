package cluster

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/internal/paralleltest"
)

// How many tests run at a time: see lighthouse's main_test.go.
const (
	testsAtOnce     = 8
	testsAtOnceRace = 4
)

func TestMain(m *testing.M) {
	n := testsAtOnce
	if raceDetector {
		n = testsAtOnceRace
	}
	paralleltest.AtOnce(n)
	goleak.VerifyTestMain(m)
}
