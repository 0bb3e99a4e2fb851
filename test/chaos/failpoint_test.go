package chaos

import (
	"context"
	"errors"
	"flag"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/failpoint"
	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/train/spawn"
)

var everyPoint = flag.Bool("chaos.points", false, "TestDiesAtEachPoint takes every point, not a few")

// withDeath lets this process end itself as SIGKILL does, where and when a says.
func withDeath(ctx context.Context, a workerArgs, armed *atomic.Bool) context.Context {
	if a.DieAt == "" {
		return ctx
	}
	armed.Store(a.DieFrom == 0)
	return failpoint.With(ctx, func(p failpoint.Point) {
		if string(p) != a.DieAt || !armed.Load() {
			return
		}
		if strings.HasSuffix(string(p), ".during") { // the rest of the process goes on a little
			time.Sleep(2 * time.Millisecond)
		}
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	})
}

// fewPoints are those of a short look: a death in the data plane, one with a promise
// given, and one between the decision and what is made of it.
var fewPoints = []failpoint.Point{failpoint.AllReduceDuring, failpoint.BallotDuring, failpoint.CommitAfter, failpoint.SendDuring}

// TestDiesAtEachPoint: a trainer is killed at each point that there is. The others go on, it
// comes back, and the closing checks hold.
func TestDiesAtEachPoint(t *testing.T) {
	t.Parallel()
	for _, at := range failpoint.All() {
		if !*everyPoint && !slices.Contains(testkit.Some(fewPoints, 2), at) {
			continue
		}
		t.Run(string(at), func(t *testing.T) {
			t.Parallel()
			diesAt(t, at)
		})
	}
}

func diesAt(t *testing.T, at failpoint.Point) {
	what, _, _ := strings.Cut(string(at), ".")
	victim, from := 2, int64(10)
	switch what {
	case "heal-receive":
		from = 0
	case "heal-send", "checkpoint": // the first of the participants writes
		victim = 0
	}
	set := what != "heal-receive" // that newcomer is yet to come
	o := options{replicas: 3, steps: 120, ballastMiB: 4, tune: func(a *workerArgs, index int) {
		if index == victim && set {
			a.DieAt, a.DieFrom = string(at), from
		}
	}}
	switch what {
	case "checkpoint":
		o.checkpointEvery = 5
	case "heal-send": // a part of each heal for each donor, and time for some of them
		o.ballastMiB, o.steps = 16, 400
	}
	c := start(t, o)
	switch what {
	case "join", "configure": // another's death makes a quorum
		c.awaitStep(12)
		c.kill(1)
	case "heal-receive":
		c.awaitStep(12)
		c.kill(2)
		set = true
		c.startTrainer(2)
	case "heal-send": // of a heal that is over soon the victim may not have a part
		c.awaitStep(12)
		for !c.ended(victim) {
			c.kill(2)
			c.awaitMore(2, 1)
			c.startTrainer(2)
			c.await("the newcomer has healed, or its donor died", func() bool { return c.ended(victim) || c.commitsAnew(2) })
		}
	}
	c.awaitDeath(victim, at)
	set = false
	if what == "join" || what == "configure" {
		c.awaitMore(5, 0)
		c.startTrainer(1)
	} else {
		c.awaitMore(5, 1)
	}
	c.startTrainer(victim)
	c.finish()
}

// commitsAnew reports whether the newest incarnation of a trainer has committed a step.
func (c *cluster) commitsAnew(i int) (yes bool) {
	c.each(func(r report) { yes = yes || r.Kind == committed && r.index == i && r.incarnation == c.started[i] })
	return yes
}

// ended reports whether a trainer has ended, however.
func (c *cluster) ended(i int) bool {
	select {
	case <-c.trainers[i].Done():
		return true
	default:
		return false
	}
}

// awaitDeath waits until a trainer has been killed by its own hand.
func (c *cluster) awaitDeath(i int, at failpoint.Point) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	exit, ok := errors.AsType[*spawn.ExitError](c.trainers[i].Wait(ctx))
	if !ok || exit.Signal != syscall.SIGKILL {
		c.t.Fatalf("replica %d ends with %v, want SIGKILL at %s:\n%s", i, exit, at, c.tail())
	}
}
