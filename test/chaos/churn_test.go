package chaos

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/testkit"
)

var (
	drillFor   = flag.Duration("chaos.for", 0, "how long each churn and each cause lasts, and that its times are judged; 0: some seconds, and they are not")
	churnSeeds = flag.Uint64("chaos.seeds", 1, "how many churns")
)

// The bounds of churn.
const (
	churnMost      = 6 // replicas at a time
	churnFewest    = 2
	maxGap         = 2 * time.Second
	maxRecoveryP50 = 50 * time.Millisecond
	maxRecoveryP99 = 300 * time.Millisecond
)

// TestChurn starts a replica or kills one every half to two seconds. Those who are
// left go on: no gap, and after each kill the next quorum commits at once; and
// what was committed is what its contributors add up to. At least so many stay as
// must, and have committed: the state is never lost.
func TestChurn(t *testing.T) {
	testkit.Long(t)
	if *drillFor == 0 {
		t.Parallel()
	}
	from := max(*seed, 1)
	for s := from; s < from+*churnSeeds; s++ {
		t.Run(fmt.Sprintf("seed %d", s), func(t *testing.T) {
			if *drillFor == 0 { // nobody judges its times
				t.Parallel()
			}
			churn(t, s)
		})
	}
}

// death is a kill: when, when the process had ended, which a busy system may take a
// while for, and the newest quorum that the victim was in.
type death struct {
	at     time.Time
	ended  time.Time
	victim int
	quorum int64
}

func churn(t *testing.T, s uint64) {
	rng := rand.New(rand.NewPCG(s, 1))
	fewest := 1 + int(s%2)
	c := start(t, options{
		drill: true, replicas: churnMost, begin: churnFewest + rng.IntN(churnMost-churnFewest+1), minReplicas: fewest,
		tune: func(a *workerArgs, i int) { a.Index = i },
	})
	c.awaitStep(1)
	began, paused := time.Now(), c.pauses()
	lasts := *drillFor
	if lasts == 0 {
		lasts = 5 * time.Second
	}
	var deaths []death
	joins := 0
	for time.Since(began) < lasts {
		time.Sleep(500*time.Millisecond + time.Duration(rng.Int64N(int64(1500*time.Millisecond))))
		up, settled := c.population()
		var victims []int
		for _, i := range up {
			left := len(settled)
			if slices.Contains(settled, i) {
				left--
			}
			if left >= fewest {
				victims = append(victims, i)
			}
		}
		kill := len(up) > churnFewest && len(victims) > 0 && (len(up) == churnMost || rng.IntN(2) == 0)
		switch {
		case kill:
			i := victims[rng.IntN(len(victims))]
			d := death{at: time.Now(), victim: i, quorum: c.lastQuorum(i)}
			c.kill(i)
			d.ended = time.Now()
			deaths = append(deaths, d)
			t.Logf("%7.3fs kill %d, in quorum %d, at step %d", time.Since(began).Seconds(), i, d.quorum, c.step())
		case len(up) < churnMost:
			i := c.absent(rng)
			c.startTrainer(i)
			joins++
			t.Logf("%7.3fs start %d/%d, at step %d", time.Since(began).Seconds(), i, c.started[i], c.step())
		}
	}
	c.awaitStep(c.step() + 3) // after the last kill, too
	c.endChurn(s, fewest, began, deaths, joins, paused())
}

// endChurn makes the closing checks, and tells the figures.
func (c *cluster) endChurn(s uint64, fewest int, began time.Time, deaths []death, joins int, paused time.Duration) {
	c.t.Helper()
	ended := time.Now()
	longest := gap(c.commits(), began, ended)
	c.shutDown()
	c.o.steps = c.step()
	c.checkParity()
	c.checkSteps()
	steps := c.replay()
	c.checkNothingLeft()
	equal := "equal"
	if c.t.Failed() {
		equal = "NOT equal"
	}
	took := c.recoveries(deaths)
	p50, p99 := quantile(took, 0.5), quantile(took, 0.99)
	fmt.Printf("churn seed %d, min %d, %v: longest gap %s (the machine's own pauses: to %s); SIGKILL -> next commit of %d: p50 %s, p99 %s; %d steps, %d starts; replay of %d steps %s; load %s\n",
		s, fewest, ended.Sub(began).Round(time.Second), ms(longest), ms(paused), len(took), ms(p50), ms(p99), c.o.steps, joins, steps, equal, load())
	if *drillFor == 0 {
		return
	}
	if longest > maxGap+paused {
		c.t.Errorf("longest gap %v, want at most %v, and the machine's own pauses of %v", longest, maxGap, paused)
	}
	if p50 > maxRecoveryP50 || p99 > maxRecoveryP99 {
		c.t.Errorf("SIGKILL to next commit: p50 %v, p99 %v, want at most %v, %v", p50, p99, maxRecoveryP50, maxRecoveryP99)
	}
}

// population is who runs, and of them who has committed in its present
// incarnation.
func (c *cluster) population() (up, settled []int) {
	done := make(map[int]bool)
	c.each(func(r report) {
		if r.Kind == committed && r.incarnation == c.started[r.index] {
			done[r.index] = true
		}
	})
	for i, p := range c.trainers {
		if runs(p) {
			up = append(up, i)
			if done[i] {
				settled = append(settled, i)
			}
		}
	}
	return up, settled
}

// absent draws one that does not run.
func (c *cluster) absent(rng *rand.Rand) int {
	var out []int
	for i, p := range c.trainers {
		if !runs(p) {
			out = append(out, i)
		}
	}
	return out[rng.IntN(len(out))]
}

// lastQuorum is the newest quorum that a trainer's present incarnation was in.
func (c *cluster) lastQuorum(i int) (id int64) {
	c.each(func(r report) {
		if (r.Kind == committed || r.Kind == formed) && r.index == i && r.incarnation == c.started[i] {
			id = max(id, r.Quorum)
		}
	})
	return id
}

// recoveries are the times from each death of a member to the first commit in a
// quorum after its last, sorted.
func (c *cluster) recoveries(deaths []death) (took []time.Duration) {
	c.t.Helper()
	for _, d := range deaths {
		if d.quorum == 0 {
			continue // it had not been in a quorum
		}
		var next time.Time
		c.each(func(r report) {
			at := time.Unix(0, r.At)
			if r.Kind == committed && r.Quorum > d.quorum && at.After(d.at) && (next.IsZero() || at.Before(next)) {
				next = at
			}
		})
		if !next.IsZero() {
			took = append(took, next.Sub(d.at))
			if late := next.Sub(d.at); late > maxRecoveryP99 {
				c.t.Logf("%v from the kill of %d in quorum %d, at %s; it ended after %v",
					late, d.victim, d.quorum, d.at.Format("15:04:05.000"), d.ended.Sub(d.at))
			}
		}
	}
	slices.Sort(took)
	return took
}

// stop ends all trainers at once, without looking at how, the last one first.
func (c *cluster) stop() {
	for _, p := range slices.Backward(c.trainers) {
		if runs(p) {
			_ = p.Signal(syscall.SIGKILL) // it may have ended just now
			<-p.Done()
		}
	}
}
