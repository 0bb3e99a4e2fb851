package tcp

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/internal/paralleltest"
	"github.com/skerry-ft/skerry/train/spawn"
)

// testsAtOnce is how many tests run at a time, unless -parallel says otherwise: many
// wait for deadlines.
const testsAtOnce = 8

func TestMain(m *testing.M) {
	enterNetNS()
	enterShm()
	spawn.Register(rankWorker, serveRank)
	spawn.Init()
	paralleltest.AtOnce(testsAtOnce)
	goleak.VerifyTestMain(m)
}
