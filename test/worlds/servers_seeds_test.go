package worlds

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// TestSeedsOfServers draws faults of three lighthouse servers and three replicas: at most two
// servers are down or cut off at a time, and replicas die meanwhile. When all is whole again, all
// train together. It runs an eighth as many seeds as TestSeeds is told to. Which server leads, and
// who lives, at an instant is the run's: a seed repeats the kinds of faults and their order.
func TestSeedsOfServers(t *testing.T) {
	t.Parallel()
	n := few(4)
	if *seedCount > 0 {
		n = max(1, *seedCount/8)
	}
	for i := range n {
		seed := *seedFrom + uint64(i)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			defer func() {
				if t.Failed() {
					t.Logf("repeat: go test ./test/worlds -run 'TestSeedsOfServers$' -worlds.from %d -worlds.seeds 8 -count 20", seed)
				}
			}()
			inWorldOfServers(t, usual(), func(w *world, s *servers) {
				f := &drawnFaults{w: w, s: s, rng: rand.New(rand.NewPCG(seed, 7)), replicas: w.replicas(3, quick())}
				w.reach(20, 10*time.Second, f.replicas...)
				for range 2 + f.rng.IntN(4) {
					f.round()
				}
				most := int64(0)
				for _, r := range f.replicas {
					most = max(most, r.ranks[0].atStep())
				}
				w.reach(most+100, 40*time.Second, f.replicas...)
				w.book.sum()
			})
		})
	}
}

// drawnFaults are those of a world of servers. Each round begins and ends with all whole.
type drawnFaults struct {
	w        *world
	s        *servers
	rng      *rand.Rand
	replicas []*replica
	undo     []func()
}

// pause lets the world run for up to d, for nothing in a quarter of the cases.
func (f *drawnFaults) pause(d time.Duration) {
	if f.rng.IntN(4) > 0 {
		time.Sleep(time.Duration(f.rng.Int64N(int64(d))))
	}
}

func (f *drawnFaults) round() {
	f.undo = nil
	servers := []int{0, 1, 2}
	if f.rng.IntN(3) > 0 { // most often it is the leader's turn first
		l := f.s.all.Leader()
		servers[0], servers[l] = servers[l], servers[0]
	}
	for _, i := range servers[:1+f.rng.IntN(2)] {
		f.server(i)
		f.pause(3 * time.Second)
		if f.rng.IntN(2) == 0 {
			f.replica(f.replicas[f.rng.IntN(len(f.replicas))])
			f.pause(3 * time.Second)
		}
	}
	f.rng.Shuffle(len(f.undo), func(i, k int) { f.undo[i], f.undo[k] = f.undo[k], f.undo[i] })
	for _, undo := range f.undo {
		undo()
		f.pause(3 * time.Second)
	}
	f.pause(10 * time.Second)
}

// server draws a fault of one server.
func (f *drawnFaults) server(i int) {
	me := f.s.hosts[i].Name
	later := func(do func()) { f.undo = append(f.undo, do) }
	hold := func(from, to string) {
		f.w.book.fault(me, "nothing goes from %s to %s", from, to)
		f.w.net.Hold(from, to, true)
		later(func() { f.w.net.Hold(from, to, false) })
	}
	switch f.rng.IntN(6) {
	case 0:
		f.s.kill(i)
		later(func() { f.s.start(i) })
	case 1:
		f.w.book.fault(me, "stopped")
		f.s.all.Stop(i)
		later(func() { f.s.start(i) })
	case 2:
		f.s.cutOff(i, true)
		later(func() { f.s.cutOff(i, false) })
	case 3: // one way, to one or both of the others
		for k := range f.s.hosts {
			if k != i && f.rng.IntN(3) > 0 {
				hold(me, f.s.hosts[k].Name)
			}
		}
	case 4: // some replicas do not reach it, or are not reached
		for _, p := range f.w.procs() {
			switch way := f.rng.IntN(3); {
			case !p.alive():
			case way == 0:
				hold(p.host.Name, me)
			case way == 1:
				hold(me, p.host.Name)
			}
		}
	case 5:
		f.w.book.fault(me, "its connections are reset")
		f.s.hosts[i].Reset()
	}
}

// replica kills one that lives, which comes back soon or when the round ends.
func (f *drawnFaults) replica(r *replica) {
	soon := f.rng.IntN(2) == 0
	if !r.ranks[0].alive() {
		return
	}
	r.kill()
	if !soon {
		f.undo = append(f.undo, func() { r.start() })
		return
	}
	f.pause(2 * time.Second)
	r.start()
}
