package tcp

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/train/spawn"
)

func TestMain(m *testing.M) {
	enterNetNS()
	enterShm()
	spawn.Register(rankWorker, serveRank)
	spawn.Init()
	goleak.VerifyTestMain(m)
}
