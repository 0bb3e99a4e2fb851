package main

import (
	"strings"
	"testing"
)

// A mutant that few seeds show is looked for where it is known to be, unless --from
// says where.
func TestSimLooksForMutantsNearTheirSeeds(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"sim --mutant veto --seeds 40":          "all 1 mutants are found",
		"sim --mutant veto --seeds 2 --from 40": "not found in 2 seeds from 40",
	} {
		root, out := newRoot(), new(strings.Builder)
		root.SetArgs(strings.Fields(args))
		root.SetOut(out)
		root.SetErr(out)
		err := root.ExecuteContext(t.Context())
		if found := err == nil; found != strings.Contains(want, "are found") || !strings.Contains(out.String(), want) {
			t.Errorf("%s: error %v, want %q in %q", args, err, want, out)
		}
	}
}
