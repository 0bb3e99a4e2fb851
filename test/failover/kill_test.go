package failover

import (
	"context"
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/testkit"
)

var (
	kills   = flag.Int("failover.kills", 5, "how often TestKillTheLeader kills")
	timing  = flag.String("failover.timing", "default", "raft's timing: fast, default or slow")
	verbose = flag.Bool("failover.verbose", false, "show the processes' logs")
)

const (
	replicas = 8
	every    = time.Second // one leaves and one joins
)

// The leader is killed at random moments and restarted: no step is discarded
// because of it, ids rise, and one id has one member list.
func TestKillTheLeader(t *testing.T) {
	t.Parallel()
	c := startServers(t, *timing)
	f := newFleet(t, c.voters(), replicas)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	torchft := ask(ctx, t, c.forwarder(), replicas)
	f.awaitSteps(5)
	churn := make(chan struct{})
	go func() {
		defer close(churn)
		f.churn(ctx, every)
	}()
	var slowest time.Duration
	down := -1
	most := *kills
	if !testkit.All() {
		most = 2
	}
	for i := range most {
		time.Sleep(rand.N(time.Second))
		leader := c.leader(down)
		began := time.Now()
		c.kill(leader)
		down = leader
		c.leader(down)
		took := time.Since(began)
		slowest = max(slowest, took)
		time.Sleep(rand.N(500 * time.Millisecond))
		c.start(leader)
		c.awaitServing(leader)
		f.awaitSteps(3)
		t.Logf("kill %d of server %d: another led after %v", i+1, leader, took.Round(time.Millisecond))
	}
	cancel()
	<-churn
	f.awaitMembers()
	f.awaitSteps(5)
	f.check()
	torchft.check()
	t.Logf("the slowest of %d changes of leader took %v", most, slowest.Round(time.Millisecond))
}
