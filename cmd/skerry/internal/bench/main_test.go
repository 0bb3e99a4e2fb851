package bench

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/pg/baby"
	"github.com/skerry-ft/skerry/pg/tcp"
	"github.com/skerry-ft/skerry/train/spawn"
)

func TestMain(m *testing.M) {
	spawn.Register(WorkerAllReduce, AllReduceWorker)
	spawn.Register(WorkerLighthouse, LighthouseWorker)
	spawn.Register(WorkerHeal, HealWorker)
	if err := tcp.Register(); err != nil {
		panic(err)
	}
	baby.Init()
	goleak.VerifyTestMain(m)
}
