package sim

import (
	"math/rand/v2"
	"time"
)

// This file draws the causes in which links between replicas fail.

// cutsOne has one link cut, and never mended.
func cutsOne(kind FaultKind, both int) func(o *Options, rng *rand.Rand) {
	return func(o *Options, rng *rand.Rand) {
		a := rng.IntN(o.Replicas)
		b := (a + 1 + rng.IntN(o.Replicas-1)) % o.Replicas
		// An even B cuts in one direction; pick counts modulo those that are up.
		for b%2 != both {
			b += o.Replicas
			if o.Replicas%2 == 0 {
				a, b = a+1, b+1
			}
		}
		o.Faults = []Fault{{At: o.Strikes, Kind: kind, A: a, B: b, Lasts: o.Faulty}}
	}
}

// cutsMany has links cut all the time, or a few soon and for ever.
func cutsMany(o *Options, rng *rand.Rand) {
	o.Replicas, o.Min, o.Faulty = MinReplicas+rng.IntN(2), 1+rng.IntN(3), time.Duration(60+rng.IntN(60))*time.Second
	if rng.IntN(2) == 0 {
		o.cutForEver(rng)
		return
	}
	kinds := [...]FaultKind{FaultLink, FaultOneWay, FaultLong, FaultLong, FaultStore, FaultStore}
	for at := 5 * time.Second; at < o.Faulty; at += time.Duration(6+rng.IntN(30)) * time.Second {
		f := Fault{At: at, Kind: kinds[rng.IntN(len(kinds))], A: rng.IntN(64), B: rng.IntN(64)}
		f.Lasts = time.Duration(10+rng.IntN(4_000)) * time.Millisecond // of those for long: up to two minutes
		o.Faults = append(o.Faults, f)
	}
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
