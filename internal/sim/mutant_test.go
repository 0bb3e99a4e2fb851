package sim

import (
	"flag"
	"slices"
	"testing"
)

var hunts = flag.Uint64("hunt", 400, "how many seeds TestMutants runs of each mutant at most")

// TestMutants shows that the simulation has teeth: with one rule taken out, a
// bounded number of seeds shows it, and names one of the rules that are meant.
func TestMutants(t *testing.T) {
	for _, m := range Mutants() {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			for seed := m.Near(); seed < m.Near()+*hunts; seed++ {
				r := Run(seed, Settings{Mutant: m})
				if r.Rule == "" {
					continue
				}
				if !slices.Contains(m.Want, r.Rule) {
					t.Errorf("seed %d: found %v, want one of %v", seed, r.Err, m.Want)
				}
				t.Logf("seed %d: %v", seed, r.Err)
				return
			}
			t.Errorf("not found in %d seeds, want one of %v", *hunts, m.Want)
		})
	}
}

// TestSameSeedSameRun pins that a seed repeats, byte for byte: all that is noted
// of it, and where everybody is at its end.
func TestSameSeedSameRun(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		a, b := Run(seed, Settings{Trace: true}), Run(seed, Settings{Trace: true})
		if a.state != b.state || !slices.Equal(a.Trace, b.Trace) || len(a.Trace) == 0 {
			t.Errorf("seed %d: two runs differ: %d lines %x, %d lines %x", seed, len(a.Trace), a.state, len(b.Trace), b.state)
		}
		if c := Run(seed, Settings{}); c.state != a.state {
			t.Errorf("seed %d: a run that is not traced differs", seed)
		}
	}
}

// TestShrink takes the faults away that a violation does not need.
func TestShrink(t *testing.T) {
	t.Parallel()
	m := Mutants()[slices.IndexFunc(Mutants(), func(m Mutant) bool { return m.Name == "fence" })]
	for seed := range uint64(50) {
		r := Run(seed, Settings{Mutant: m})
		if r.Rule == "" {
			continue
		}
		s := Shrink(seed, Settings{Mutant: m})
		if s.Rule != r.Rule || len(s.Options.Faults) >= len(r.Options.Faults) || len(s.Trace) == 0 {
			t.Errorf("seed %d: %s by %d faults, shrunk %s by %d", seed, r.Rule, len(r.Options.Faults), s.Rule, len(s.Options.Faults))
		}
		return
	}
	t.Error("no seed shows the mutant")
}
