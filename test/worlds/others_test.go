package worlds

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/testkit"
)

var othersSeeds = flag.Int("worlds.others", 1, "how many seeds TestOthersGoOn runs of each cause")

// trouble is one replica's, or the lighthouse's; all others must go on.
var troubles = []struct {
	name   string
	skewed time.Duration // between two steps of one member
	strike func(w *world, r *rand.Rand, all []*replica)
}{
	{"a trainer hangs in the forward pass", 0, hangsAt(stageStarted)},
	{"a newcomer's tensors have another size", 0, func(w *world, r *rand.Rand, all []*replica) {
		m := quick()
		m.odd = true
		w.newcomer(r, all, m)
	}},
	{"rank 0 of two dies", 0, func(w *world, _ *rand.Rand, all []*replica) { w.rankDies(all[len(all)-1], 0) }},
	{"newcomers heal for three times StuckAfter", 0, func(w *world, r *rand.Rand, all []*replica) {
		m := quick()
		m.heals = 3 * w.o.rules.StuckAfter
		w.newcomer(r, all, m)
		time.Sleep(time.Minute)
		w.newcomer(r, all, m)
	}},
	{"the lighthouse is out of reach for 2 s", 0, func(w *world, _ *rand.Rand, _ []*replica) { w.blip(2 * time.Second) }},
	{"a trainer hangs between steps", 0, hangsAt(stagePause)},
	{"a trainer hangs between collectives", 0, hangsAt(stageBetween)},
	{"a trainer hangs before its ballot", 0, hangsAt(stageBallot)},
	{"a newcomer leaves a collective out", 0, func(w *world, r *rand.Rand, all []*replica) {
		m := quick()
		m.skips = true
		w.newcomer(r, all, m)
	}},
	{"a newcomer's heals fail", 0, func(w *world, r *rand.Rand, all []*replica) {
		m := quick()
		m.healFails, m.heals = true, between(r, 0, 300*time.Millisecond)
		w.newcomer(r, all, m)
	}},
	{"rank 1 of two dies", 0, func(w *world, _ *rand.Rand, all []*replica) { w.rankDies(all[len(all)-1], 1) }},
	{"members start their steps 1.5 s apart, and one joins", 1500 * time.Millisecond, func(w *world, r *rand.Rand, all []*replica) {
		w.newcomer(r, all, quick())
	}},
}

// hangsAt makes the last replica hang at its next step, or some later one.
func hangsAt(at stage) func(w *world, r *rand.Rand, all []*replica) {
	return func(w *world, r *rand.Rand, all []*replica) {
		last := all[len(all)-1]
		last.orders.Store(&order{at: at, do: func(ctx context.Context, p *proc) { p.hang(ctx) }})
	}
}

// newcomer starts one more replica.
func (w *world) newcomer(r *rand.Rand, all []*replica, m manners) *replica {
	w.newcomers++
	index := len(all) + w.newcomers - 1
	// Its name may be the first or the last: the primary is chosen by name.
	name := string(rune('n' + w.newcomers))
	if chance(r, 0.5) {
		name = fmt.Sprintf("A%d", w.newcomers)
	}
	return w.replica(name, index, all[0].size, m).start()
}

// rankDies kills one rank alone.
func (w *world) rankDies(r *replica, rank int) {
	w.book.fault(r.name, "rank %d killed", rank)
	r.ranks[rank].kill()
}

// TestOthersGoOn: whatever one replica does or suffers, for however long, costs the
// others a bounded stall, at a rate that falls off: within the first minute no more
// than 5 s at a time, in the third no more than half a second over a step.
func TestOthersGoOn(t *testing.T) {
	t.Parallel()
	for _, trouble := range testkit.Some(troubles, 5) {
		t.Run(trouble.name, func(t *testing.T) {
			for seed := range *othersSeeds {
				if t.Failed() {
					return
				}
				othersGoOn(t, uint64(seed), trouble.skewed, trouble.strike)
			}
		})
	}
}

func othersGoOn(t *testing.T, seed uint64, skewed time.Duration, strike func(w *world, r *rand.Rand, all []*replica)) {
	r := rand.New(rand.NewPCG(seed, 0x07e5))
	o := usual()
	o.stepTimeout = 3 * time.Second
	o.rules.StuckAfter = between(r, 10*time.Second, 30*time.Second)
	n, size := 3+r.IntN(2), 2
	changes := 3 * o.rules.StuckAfter / difference // what those who train wait for of the longest heal
	inWorld(t, o, func(w *world) {
		var all []*replica
		for i := range n {
			m := quick()
			m.forward = between(r, 50*time.Millisecond, 150*time.Millisecond)
			if skewed > 0 && i == 1 {
				m.pause = skewed
			}
			all = append(all, w.replica(string(rune('a'+i)), i, size, m).start())
		}
		if !w.reach(5, 30*time.Second, all...) {
			return
		}
		w.book.watch()
		began := w.now()
		strike(w, r, all)
		minutes := []time.Duration{5 * time.Second, 5 * time.Second, 500*time.Millisecond + skewed + changes}
		if testing.Short() {
			minutes = minutes[:1]
		}
		for minute, most := range minutes {
			time.Sleep(began + time.Duration(minute+1)*time.Minute - w.now())
			if gap := w.book.longest(); gap > most {
				w.t.Errorf("seed %d: in minute %d the longest time without a commit is %v, want at most %v; %s",
					seed, minute+1, gap, most, w.standings())
				return
			}
			w.book.watch()
		}
	})
}
