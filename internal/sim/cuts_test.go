package sim

import "testing"

// TestCutLinks: the worlds of a cut link have one, between two replicas, in as many
// directions as the cause says (an even B is one).
func TestCutLinks(t *testing.T) {
	t.Parallel()
	for name, both := range map[string]int{"one-way": 0, "link": 1, "store": 1} {
		for seed := range uint64(200) {
			o := drawCause(seed, causeOf(name))
			if len(o.Faults) != 1 {
				t.Fatalf("%s, seed %d: %d faults, want 1", name, seed, len(o.Faults))
			}
			if f := o.Faults[0]; f.B%2 != both || f.A%o.Replicas == f.B%o.Replicas || f.At+f.Lasts < o.Faulty {
				t.Errorf("%s, seed %d: %v among %d replicas, watched for %v", name, seed, f, o.Replicas, o.Faulty)
			}
		}
	}
}
