package bench

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/internal/paralleltest"
	"github.com/skerry-ft/skerry/pg/baby"
	"github.com/skerry-ft/skerry/pg/tcp"
	"github.com/skerry-ft/skerry/train/spawn"
)

// testsAtOnce is how many benches run at a time, unless -parallel says otherwise: they
// wait for their processes rather than compute.
const testsAtOnce = 6

func TestMain(m *testing.M) {
	spawn.Register(WorkerAllReduce, AllReduceWorker)
	spawn.Register(WorkerLighthouse, LighthouseWorker)
	spawn.Register(WorkerHeal, HealWorker)
	if err := tcp.Register(); err != nil {
		panic(err)
	}
	baby.Init()
	paralleltest.AtOnce(testsAtOnce)
	goleak.VerifyTestMain(m)
}
