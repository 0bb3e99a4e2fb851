package bench

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/train/spawn"
)

func TestMain(m *testing.M) {
	spawn.Register(WorkerAllReduce, AllReduceWorker)
	spawn.Register(WorkerLighthouse, LighthouseWorker)
	spawn.Init()
	goleak.VerifyTestMain(m)
}
