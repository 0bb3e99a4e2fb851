package many

import (
	"time"

	"github.com/skerry-ft/skerry/internal/problems"
)

// MaxReplicas is the largest job that is simulated.
const MaxReplicas = 10_000

// Options are what a run is made of. Times are virtual.
type Options struct {
	Replicas  int
	Duration  time.Duration // from when the replicas start
	Step      time.Duration // that a trainer computes
	Seed      uint64
	KillEvery time.Duration // a replica is killed, by random, so often; 0: none
	Restart   time.Duration // after which a killed one comes again, under another id, and joins; 0: never
	Leaders   int           // changes of the lighthouse's leader, spread over the run
}

// Validate returns all problems of o.
func (o Options) Validate() error {
	l := problems.List{Prefix: "--"}
	problems.Within(&l, "replicas", o.Replicas, 1, MaxReplicas)
	problems.Within(&l, "duration", o.Duration, time.Second, time.Hour)
	problems.Within(&l, "step", o.Step, time.Millisecond, time.Minute)
	problems.NotNegative(&l, "kill-every", o.KillEvery)
	problems.NotNegative(&l, "restart", o.Restart)
	problems.Within(&l, "leaders", o.Leaders, 0, 1000)
	return l.Err()
}
