package chaos

import (
	"flag"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"
)

var (
	faults = flag.Int("chaos.faults", 8, "how many faults the random run injects")
	seed   = flag.Uint64("chaos.seed", 0, "repeat the random run of this seed; 0 draws one")
)

// TestRandom injects faults of all kinds at random moments, the next one often
// before the last one is overcome. One replica is always left alone, so that
// the state is never lost.
func TestRandom(t *testing.T) {
	t.Parallel()
	random(t, *faults, options{})
}

// Random faults while all that is said is encrypted and proven.
func TestRandomGuarded(t *testing.T) {
	t.Parallel()
	random(t, max(*faults/2, 1), options{guarded: true})
}

// Random faults in trainers whose backends run in children of theirs: none of these is left
// behind, however its trainer ended.
func TestRandomBabies(t *testing.T) {
	t.Parallel()
	random(t, max(*faults/2, 1), options{baby: true})
}

func random(t *testing.T, count int, o options) {
	t.Helper()
	s := *seed
	if s == 0 {
		s = uint64(time.Now().UnixNano())
	}
	t.Logf("repeat with: go test ./test/chaos -run %s$ -chaos.faults %d -chaos.seed %d", t.Name(), *faults, s)
	rng := rand.New(rand.NewPCG(s, 0))
	o.steps, o.durable = int64(60+20*count), true
	c := start(t, o)
	began := time.Now()
	for n := range count {
		c.awaitMore(1 + rng.Int64N(15))
		f := menu[rng.IntN(len(menu))]
		victim := 1 + rng.IntN(c.o.replicas-1)
		t.Logf("%6.2fs step %d: fault %d: %s, replica %d", time.Since(began).Seconds(), c.step(), n, f.name, victim)
		f.inject(c, victim, rng)
	}
	c.finish()
}

// menu is the faults that a random run draws from.
var menu = []struct {
	name   string
	inject func(c *cluster, victim int, rng *rand.Rand)
}{
	{"kill, restart at once", func(c *cluster, victim int, _ *rand.Rand) {
		c.kill(victim)
		c.startTrainer(victim)
	}},
	{"kill, restart after some steps", func(c *cluster, victim int, rng *rand.Rand) {
		c.kill(victim)
		c.awaitMore(1+rng.Int64N(10), 0)
		c.startTrainer(victim)
	}},
	{"kill all but one, restart", func(c *cluster, _ int, rng *rand.Rand) {
		c.kill(1, 2, 3)
		if rng.IntN(2) == 0 {
			c.awaitMore(2, 0)
		}
		for i := 1; i < c.o.replicas; i++ {
			c.startTrainer(i)
		}
	}},
	{"stop, continue after some steps", func(c *cluster, victim int, rng *rand.Rand) {
		c.signal(c.trainers[victim], syscall.SIGSTOP)
		c.awaitMore(1+rng.Int64N(10), 0)
		c.signal(c.trainers[victim], syscall.SIGCONT)
	}},
	{"stop all but one, continue after some steps", func(c *cluster, _ int, rng *rand.Rand) {
		for i := 1; i < c.o.replicas; i++ {
			c.signal(c.trainers[i], syscall.SIGSTOP)
		}
		c.awaitMore(1+rng.Int64N(5), 0)
		for i := 1; i < c.o.replicas; i++ {
			c.signal(c.trainers[i], syscall.SIGCONT)
		}
	}},
	{"cut the link to another replica", func(c *cluster, victim int, rng *rand.Rand) {
		c.cut(victim, (victim+1+rng.IntN(c.o.replicas-1))%c.o.replicas)
	}},
	{"stop the lighthouse while a replica dies and starts again", func(c *cluster, victim int, _ *rand.Rand) {
		c.signal(c.light, syscall.SIGSTOP)
		c.kill(victim)
		c.startTrainer(victim)
		c.signal(c.light, syscall.SIGCONT)
	}},
	{"kill the lighthouse, restart", func(c *cluster, _ int, _ *rand.Rand) {
		c.light.Kill()
		c.startLighthouse(c.addr)
	}},
	{"kill the lighthouse and a replica, restart both", func(c *cluster, victim int, _ *rand.Rand) {
		c.light.Kill()
		c.kill(victim)
		c.startLighthouse(c.addr)
		c.startTrainer(victim)
	}},
}
