package cluster

import (
	"fmt"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/skerry-ft/skerry/internal/testkit"
)

// The log is cut behind a snapshot; a restart reads the snapshot and what came
// after it, and a server that comes new is sent it: all hold the same.
func TestSnapshotsCompactAndRestore(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("thousands of writes to a disk: not with -short")
	}
	founder := func(cfg *Config) { cfg.Expect, cfg.Voters = 1, 1 }
	dir := t.TempDir()
	first := startNode(t, func(cfg *Config) { founder(cfg); cfg.DataDir = dir })
	l := leads(t, first)
	const commands = 2_500 // above what is kept behind a snapshot
	fillLedger(t, l, commands)
	if at, err := compact(l); err != nil || at < commands/2 {
		t.Fatalf("the log begins at %d after a snapshot of %d commands, %v", at, commands, err)
	}
	if found, err := filepath.Glob(filepath.Join(dir, "snapshots", "*", "state.bin")); err != nil || len(found) == 0 {
		t.Fatalf("no snapshot is in the data dir: %v", err)
	}
	fillLedger(t, l, 3)
	want := ledgerText(l)
	first.stop()
	first = startNode(t, func(cfg *Config) { founder(cfg); cfg.DataDir, cfg.Listen = dir, first.cfg.Listen })
	// It leads before the rest of its log is applied; nobody is served before that.
	restarted := leads(t, first)
	testkit.EventuallyNil(t, "a restart reads the snapshot and the rest", func() error {
		return same(withoutIDs(want), withoutIDs(ledgerText(restarted)))
	})
	second := startNode(t, func(cfg *Config) { cfg.DataDir, cfg.Join = t.TempDir(), []string{first.cfg.Listen} })
	testkit.EventuallyNil(t, "a new server is sent them", func() error {
		return same(ledgerText(first.Ledger()), ledgerText(second.Ledger()))
	})
}

// withoutIDs leaves the highest ids out of a ledger's text: a lone server raises
// them at each start, for its disk may be older than what it has issued.
func withoutIDs(ledger string) string { return highestIDs.ReplaceAllString(ledger, "") }

var highestIDs = regexp.MustCompile(`"(HighestID|floor)":\d+`)

func same(want, got string) error {
	if d := cmp.Diff(want, got); d != "" {
		return fmt.Errorf("-want +got:\n%s", d)
	}
	return nil
}
