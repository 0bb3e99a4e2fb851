package mesh

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/train/spawn"
)

func TestMain(m *testing.M) {
	spawn.Register(workerName, replica)
	spawn.Register(rankName, single)
	spawn.Init() // does not return in a worker
	goleak.VerifyTestMain(m)
}
