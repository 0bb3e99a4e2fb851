package pg_test

import (
	"errors"
	"testing"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/dummy"
)

// TestReportError: Swallow skips what comes after an error that its user found;
// a group without such a decorator is aborted.
func TestReportError(t *testing.T) {
	cause := errors.New("loss is not a number")
	for name, b := range map[string]pg.Backend{"swallow": pg.NewSwallow(dummy.New()), "plain": dummy.New()} {
		g := pg.NewGroup(b)
		if err := g.Configure(t.Context(), pg.Config{StoreAddress: "s/1", ReplicaIDs: []string{"a"}, Cluster: "c", QuorumID: 1}); err != nil {
			t.Fatal(err)
		}
		g.ReportError(cause)
		if err := g.Err(); !errors.Is(err, cause) {
			t.Errorf("%s: Err is %v", name, err)
		}
		if err := g.Barrier(t.Context()); (err == nil) != (name == "swallow") {
			t.Errorf("%s: barrier after it: %v", name, err)
		}
	}
}
