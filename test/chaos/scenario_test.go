package chaos

import (
	"context"
	"errors"
	"flag"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/train/spawn"
)

var (
	verbose = flag.Bool("chaos.verbose", false, "let the processes log to standard error")
	logs    = flag.String("chaos.logs", "", "let each process log to a file of its own in this folder")
)

// Replica 2 dies in the middle of training; the others go on, it comes back,
// heals, and takes part again.
func TestKillOne(t *testing.T) {
	t.Parallel()
	c := start(t, options{steps: 120})
	c.awaitStep(10)
	c.kill(2)
	c.awaitMore(10)
	c.startTrainer(2)
	c.awaitMore(5, 2)
	c.finish()
}

// Three of four die at the same moment. The last one trains alone until they
// are back.
func TestKillAllButOne(t *testing.T) {
	testkit.Long(t)
	t.Parallel()
	c := start(t, options{steps: 150})
	c.awaitStep(10)
	c.kill(0, 1, 3)
	c.awaitMore(10, 2)
	for _, i := range []int{0, 1, 3} {
		c.startTrainer(i)
	}
	c.awaitMore(5, 0)
	c.finish()
}

// A replica dies while it heals, once; its next incarnation heals in peace.
func TestKillTargetDuringHeal(t *testing.T) {
	testkit.Long(t)
	t.Parallel()
	c := start(t, options{steps: 150, ballastMiB: 64})
	c.awaitStep(5)
	c.kill(1)
	heals := c.count(healStarted)
	c.startTrainer(1)
	c.await("replica 1 heals", func() bool { return c.count(healStarted) > heals })
	c.kill(1)
	c.awaitMore(5)
	c.startTrainer(1)
	c.awaitMore(5, 1)
	c.finish()
}

// A donor dies while another replica heals: with two donors left, the state
// comes from the others, or with the next quorum.
func TestKillDonorDuringHeal(t *testing.T) {
	t.Parallel()
	c := start(t, options{steps: 150, ballastMiB: 64})
	c.awaitStep(5)
	c.kill(1)
	heals := c.count(healStarted)
	c.startTrainer(1)
	c.await("replica 1 heals", func() bool { return c.count(healStarted) > heals })
	c.kill(0)
	c.awaitMore(5)
	c.startTrainer(0)
	c.awaitMore(5, 0)
	c.finish()
}

// The same replica dies and is back at once, again and again: faster than any
// heartbeat times out.
func TestRestartFasterThanHeartbeat(t *testing.T) {
	testkit.Long(t)
	t.Parallel()
	c := start(t, options{steps: 150})
	for range 4 {
		c.awaitMore(8)
		c.kill(3)
		c.startTrainer(3)
		c.awaitMore(2, 3)
	}
	c.finish()
}

// A replica is stopped, the others go on without it; continued, it is behind,
// heals and takes part again.
func TestStopAndContinue(t *testing.T) {
	t.Parallel()
	c := start(t, options{steps: 200})
	c.awaitStep(10)
	c.signal(c.trainers[1], syscall.SIGSTOP)
	c.awaitMore(15, 0)
	c.signal(c.trainers[1], syscall.SIGCONT)
	c.awaitMore(5, 1)
	c.finish()
}

// The connections between two replicas end, again and again, and both processes live: each
// time the job goes on, and no replica is left out for good.
func TestCutLinks(t *testing.T) {
	testkit.Long(t)
	t.Parallel()
	c := start(t, options{steps: 200})
	c.awaitStep(10)
	cuts := 0
	for i := range 6 {
		if c.cut(i%c.o.replicas, (i+1)%c.o.replicas) {
			cuts++
		}
		c.awaitMore(8)
	}
	if cuts == 0 && c.mayCut() {
		t.Error("no link was there to be cut")
	}
	c.finish()
}

// A replica comes back with another model: it is told which tensor does not
// fit, and ends. The others go on, and the right program is welcome after it.
func TestStateThatDoesNotFit(t *testing.T) {
	t.Parallel()
	c := start(t, options{steps: 200, ballastMiB: 1})
	c.awaitStep(10)
	c.kill(3)
	wrong := c.trainerArgs()
	wrong.BallastMiB = 2
	p := c.spawn(trainerWorker, 3, wrong, &lines{each: func(report) {}})
	defer p.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	exit, ok := errors.AsType[*spawn.ExitError](p.Wait(ctx))
	if !ok || exit.Code != 1 {
		t.Fatalf("the wrong program ended with %v, want exit status 1", exit)
	}
	const want = "state does not fit: ballast/ballast: want float32[524288], got float32[262144]"
	if !strings.Contains(exit.Stderr, want) {
		t.Errorf("it said:\n%s\nwant %q in it", exit.Stderr, want)
	}
	c.awaitMore(5)
	c.startTrainer(3)
	c.awaitMore(5, 3)
	c.finish()
}

// undisturbed has trainers whom a busy machine costs no step: no link falls silent here.
func undisturbed(a *workerArgs, _ int) { a.BeatTimeout = patience }

// The lighthouse dies; the quorum stands and training goes on. It comes back on
// the same data, and a replica that dies afterwards can come back.
func TestRestartLighthouse(t *testing.T) {
	t.Parallel()
	c := start(t, options{steps: 200, durable: true, tune: undisturbed})
	c.awaitStep(10)
	before := c.count(discarded) // by a busy machine, while the first quorum came about
	c.light.Kill()
	c.awaitMore(20)
	if n := c.count(discarded) - before; n != 0 {
		t.Errorf("%d steps were discarded without a lighthouse, want 0:\n%s", n, c.tail())
	}
	c.startLighthouse(c.addr)
	c.awaitMore(10)
	c.kill(0)
	c.awaitMore(5, 1)
	c.startTrainer(0)
	c.awaitMore(5, 0)
	c.finish()
}

// A lighthouse that hangs holds up no step of a quorum that stands.
func TestStopLighthouse(t *testing.T) {
	testkit.Long(t)
	t.Parallel()
	c := start(t, options{steps: 150, tune: undisturbed})
	c.awaitStep(10)
	before := c.count(discarded)
	c.signal(c.light, syscall.SIGSTOP)
	began := time.Now()
	for time.Since(began) < 2*time.Second { // longer than every timeout of a session
		c.awaitMore(1)
		if c.step() == c.o.steps {
			break
		}
	}
	c.signal(c.light, syscall.SIGCONT)
	if n := c.count(discarded) - before; n != 0 {
		t.Errorf("%d steps were discarded, want 0:\n%s", n, c.tail())
	}
	c.finish()
}
