package lighthouse_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/lighthouse/cluster"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
	"github.com/skerry-ft/skerry/quorum"
)

// hangingCluster starts three servers whose disks can be made to hang, with
// little patience for that.
func hangingCluster(t testing.TB) (*lighthousetest.Cluster, []*badDisk) {
	t.Helper()
	disks := make([]*badDisk, 3)
	c := startCluster(t, 3, lighthousetest.Options{Timing: "slow", Change: func(i int, cfg *lighthouse.Config) {
		cfg.Raft.DiskTimeout = time.Second
		cfg.Raft.Disk = func(d cluster.Disk) cluster.Disk {
			disks[i] = &badDisk{Disk: d}
			return disks[i]
		}
	}})
	settled(t, c, 0, []int{0, 1, 2}, nil)
	return c, disks
}

// The leader's disk hangs without an error: another server leads, and goes on
// with higher ids. When the write returns, what it wrote is taken back, and the
// server holds what the others hold.
func TestLeadersDiskHangs(t *testing.T) {
	t.Parallel()
	long(t)
	inBubble(t, func(t *virtual) {
		c, disks := hangingCluster(t)
		old, gone, first := formIn(t, c, "a", "b")
		over := make(chan struct{})
		disks[old].hangUntil(over)
		for _, r := range gone {
			r.join(quorum.JoinFall, func(j *quorum.Join) {
				j.Fact = quorum.Fact{Kind: quorum.Refused, Step: 1, QuorumID: first.ID}
			})
		}
		c.Eventually("another server leads", func() error {
			if c.Leader() == old {
				return fmt.Errorf("server %d still does", old)
			}
			return nil
		})
		for _, r := range gone {
			for len(r.down) > 0 {
				if down := <-r.down; down.GetAnswer() != nil && down.GetAnswer().GetNumber() > 1 {
					t.Errorf("%s was answered by a leader whose disk hangs: %v", r.id, down)
				}
			}
			r.kill()
		}
		_, _, second := formIn(t, c, "c", "d")
		if second.ID <= first.ID || second.Cluster != first.Cluster {
			t.Errorf("quorum %d of %s after %d of %s", second.ID, second.Cluster, first.ID, first.Cluster)
		}
		close(over)
		disks[old].hangUntil(nil)
		c.Eventually("its server has caught up", func() error {
			if got := c.Servers[old].Lighthouse.LastQuorum("default"); got < second.ID {
				return fmt.Errorf("quorum %d, want %d", got, second.ID)
			}
			return nil
		})
		c.Restart(old) // its log has no hole and nothing twice
		settled(t, c, old, []int{0, 1, 2}, nil)
	})
}

// A server whose disk hangs ends when it is told to, and says what it left.
func TestStopWithAHungDisk(t *testing.T) {
	t.Parallel()
	long(t)
	inBubble(t, func(t *virtual) {
		c, disks := hangingCluster(t)
		old, gone, first := formIn(t, c, "a", "b")
		over := make(chan struct{})
		t.Cleanup(func() { close(over) })
		disks[old].hangUntil(over)
		gone[0].join(quorum.JoinFall, func(j *quorum.Join) {
			j.Fact = quorum.Fact{Kind: quorum.Refused, Step: 1, QuorumID: first.ID}
		})
		if err := c.Servers[old].Stop(); err == nil || !strings.Contains(err.Error(), "the disk hangs") {
			t.Errorf("stopped with %v, want that the disk hangs", err)
		}
	})
}
