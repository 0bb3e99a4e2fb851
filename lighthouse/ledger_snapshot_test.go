package lighthouse_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
)

// The log is cut behind a snapshot; a restart reads the snapshot and what came
// after it, and a server that comes new is sent it: all hold the same.
func TestSnapshotsCompactAndRestore(t *testing.T) {
	t.Parallel()
	long(t)
	c := lighthousetest.StartCluster(t, 1, lighthousetest.Options{Spares: 1, Timing: "slow",
		Change: func(i int, cfg *lighthouse.Config) {
			if i == 0 {
				cfg.Cluster.Voters = 1
			}
		}})
	settled(t, c, 0, []int{0}, []int{1})
	c.Stop(1)
	_, q := form(t, c.Servers[0].Addr, "a", "b")
	const commands = 2_500 // above what is kept behind a snapshot
	if err := c.Servers[0].Lighthouse.FillLedger(commands); err != nil {
		t.Fatal(err)
	}
	first, err := c.Servers[0].Lighthouse.Compact()
	if err != nil || first < commands/2 {
		t.Fatalf("the log begins at %d after a snapshot of %d commands, %v", first, commands, err)
	}
	if found, err := filepath.Glob(filepath.Join(c.DataDir(0), "snapshots", "*", "state.bin")); err != nil || len(found) == 0 {
		t.Fatalf("no snapshot is in the data dir: %v", err)
	}
	if err := c.Servers[0].Lighthouse.FillLedger(3); err != nil {
		t.Fatal(err)
	}
	want := c.Servers[0].Lighthouse.LedgerText()
	c.Restart(0)
	c.Eventually("a restart reads the snapshot and the rest", func() error {
		return same(withoutIDs(want), withoutIDs(c.Servers[0].Lighthouse.LedgerText()))
	})
	c.Configure(1, func(cfg *lighthouse.Config) { cfg.DataDir = emptyDir(t) })
	c.Restart(1)
	c.Eventually("a new server is sent them", func() error {
		return same(c.Servers[0].Lighthouse.LedgerText(), c.Servers[1].Lighthouse.LedgerText())
	})
	if got := c.Servers[1].Lighthouse.LastQuorum("default"); got != q.ID {
		t.Errorf("it holds quorum %d, want %d", got, q.ID)
	}
}

// withoutIDs leaves the highest ids out of a ledger's text: a lone server raises
// them at each start, for its disk may be older than what it has issued.
func withoutIDs(ledger string) string { return highestIDs.ReplaceAllString(ledger, "") }

var highestIDs = regexp.MustCompile(`"(HighestID|floor)":\d+`)

func emptyDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp(t.TempDir(), "empty")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func same(want, got string) error {
	if d := cmp.Diff(want, got); d != "" {
		return fmt.Errorf("-want +got:\n%s", d)
	}
	return nil
}
