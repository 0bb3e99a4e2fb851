package sim

import (
	"math/rand/v2"
	"time"
)

// This file runs worlds in which nothing fails but links between replicas, some for
// a moment and some for ever, and checks that those who reach each other go on
// (L1). It looks at what is true of the links, not at what the leader believes.

// Limits of the gaps between commits of whoever commits, while enough replicas
// reach each other: after a link has failed or was mended, and when none has for a
// while.
const (
	gapAfterCut = 5 * time.Second
	gapAtRest   = 500 * time.Millisecond
	atRest      = 20 * time.Second
)

// RunCuts runs a seed of such a world. A broken rule is in the result.
func RunCuts(seed uint64, s Settings) Result { return runOptions(drawCuts(seed), s) }

// drawCuts makes the options of a seed.
func drawCuts(seed uint64) Options {
	o := draw(seed)
	rng := rand.New(rand.NewPCG(seed, 2))
	o.Cuts, o.Stuck, o.Fixed, o.Min, o.Faults = true, 0, 0, 1+rng.IntN(3), nil
	o.Faulty = time.Duration(60+rng.IntN(60)) * time.Second
	if rng.IntN(2) == 0 {
		o.cutForEver(rng)
		return o
	}
	kinds := [...]FaultKind{FaultLink, FaultOneWay, FaultLong, FaultLong, FaultStore, FaultStore}
	for at := 5 * time.Second; at < o.Faulty; at += time.Duration(6+rng.IntN(30)) * time.Second {
		f := Fault{At: at, Kind: kinds[rng.IntN(len(kinds))], A: rng.IntN(64), B: rng.IntN(64)}
		f.Lasts = time.Duration(10+rng.IntN(4_000)) * time.Millisecond // of those for long: up to two minutes
		o.Faults = append(o.Faults, f)
	}
	return o
}

// cutForEver has a few links cut soon, and never mended; then all is quiet for
// longer than a retry by time takes.
func (o *Options) cutForEver(rng *rand.Rand) {
	o.Faulty = 3 * time.Minute
	for range 1 + rng.IntN(3) {
		o.Faults = append(o.Faults, Fault{
			At:   5*time.Second + time.Duration(rng.IntN(15_000))*time.Millisecond,
			Kind: [...]FaultKind{FaultLong, FaultStore}[rng.IntN(2)], A: rng.IntN(64), B: rng.IntN(64), Lasts: o.Faulty,
		})
	}
}

// gaps watches the commits of all.
type gaps struct {
	last    int64 // commit
	changed int64 // a link was cut or mended
	longest [2]int64
}

// linkChanged notes that a link is cut, or mended.
func (w *world) linkChanged() { w.gaps.changed = w.now }

// committed notes a commit of anybody.
func (w *world) committed() {
	w.judgeGap()
	w.gaps.last = w.now
}

// judgeGap checks L1.
func (w *world) judgeGap() {
	if !w.o.Cuts || w.gaps.last == 0 || w.calm {
		return
	}
	gap, limit, kind := w.now-w.gaps.last, gapAfterCut, 0
	if w.gaps.last-w.gaps.changed > int64(atRest) {
		limit, kind = gapAtRest, 1
	}
	w.gaps.longest[kind] = max(w.gaps.longest[kind], gap)
	if gap <= int64(limit) {
		return
	}
	if n := w.largest(); n >= w.o.Min {
		w.fail("L1", "no commit for %v, limit %v, the last change of a link was %v ago; %d replicas reach each other, min %d\n%s",
			time.Duration(gap), limit, time.Duration(w.now-w.gaps.changed), n, w.o.Min, w.picture())
	}
}

// watchGaps looks also while nobody commits.
func (w *world) watchGaps() {
	w.judgeGap()
	w.after(gapAtRest, w.watchGaps)
}

// largest is the size of the largest set of replicas that reach each other.
func (w *world) largest() int {
	best := 0
	var grow func(in []*member, rest []*member)
	grow = func(in, rest []*member) {
		best = max(best, len(in))
		for i, m := range rest {
			fits := m.up
			for _, o := range in {
				fits = fits && m.reaches(o)
			}
			if fits {
				grow(append(in[:len(in):len(in)], m), rest[i+1:])
			}
		}
	}
	grow(nil, w.members)
	return best
}
