package lighthouse_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/quorum"
)

// The data dir of a lighthouse of one server is put back from an older copy: the
// quorums that it formed since keep their ids to themselves.
func TestRestoredDiskRepeatsNoID(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		dir := filepath.Join(t.TempDir(), "data")
		durable := func(c *lighthouse.Config) { c.DataDir = dir }
		l := start(t, durable)
		form(t, l.Addr, "a")
		stop := func() {
			t.Helper()
			if err := l.Stop(); err != nil {
				t.Fatal(err)
			}
		}
		stop()
		backup := filepath.Join(t.TempDir(), "backup")
		if err := os.CopyFS(backup, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		formed := func(id quorum.ReplicaID) quorum.Quorum {
			t.Helper()
			l = start(t, durable)
			_, q := form(t, l.Addr, id)
			stop()
			return q
		}
		before := formed("b")
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(dir, os.DirFS(backup)); err != nil {
			t.Fatal(err)
		}
		after := formed("c")
		if after.Cluster != before.Cluster || after.ID <= before.ID {
			t.Errorf("quorum %d of cluster %s after the copy was put back, want one above %d of %s",
				after.ID, after.Cluster, before.ID, before.Cluster)
		}
	})
}
