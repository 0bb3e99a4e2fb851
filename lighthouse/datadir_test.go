package lighthouse_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/lighthouse/cluster"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
)

// ends waits until a server that cannot run has ended, and returns why.
func ends(t testing.TB, s *lighthousetest.Server) error {
	t.Helper()
	select {
	case <-s.Done():
	case <-time.After(patience):
		t.Fatal("it still runs")
	}
	return s.Stop()
}

// long marks a test of several servers over seconds, which -short leaves out.
func long(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("several servers for several seconds: not with -short")
	}
}

// copyDir copies a folder's files, as a backup does.
func copyDir(t testing.TB, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil && !os.IsExist(err) {
		t.Fatal(err)
	}
}

// When the majority is lost, one server's data carry the cluster on: the same
// cluster to replicas, with ids that rise, and voters that come by themselves.
// What was before the recovery is refused.
func TestRecoverFromALostMajority(t *testing.T) {
	t.Parallel()
	long(t)
	inBubble(t, func(t *virtual) {
		c := startCluster(t, 3, lighthousetest.Options{Timing: "slow"})
		settled(t, c, 0, []int{0, 1, 2}, nil)
		_, _, first := formIn(t, c, "a", "b")
		c.Eventually("server 0 holds the quorum", func() error {
			if got := c.Servers[0].Lighthouse.LastQuorum("default"); got != first.ID {
				return fmt.Errorf("%d", got)
			}
			return nil
		})
		for i := range 3 {
			c.Stop(i)
		}
		r, err := cluster.Recover(c.DataDir(0), "", zerolog.Nop())
		if err != nil || len(r.Jobs) != 1 || r.Jobs[0] != "default" {
			t.Fatalf("recovered %+v, %v", r, err)
		}
		old := c.DataDir(1)
		c.Configure(0, func(cfg *lighthouse.Config) { cfg.Cluster.Expect, cfg.Cluster.Voters = 1, 3 })
		c.Restart(0)
		for i := 1; i < 3; i++ {
			c.Configure(i, func(cfg *lighthouse.Config) {
				cfg.DataDir, cfg.Cluster.Expect, cfg.Cluster.Voters = t.TempDir(), 0, 0
				cfg.Cluster.Join = []string{c.Servers[0].Addr}
			})
			c.Restart(i)
		}
		settled(t, c, 0, []int{0, 1, 2}, nil)
		_, _, next := formIn(t, c, "c", "d")
		if next.ID <= first.ID || next.Cluster != first.Cluster {
			t.Errorf("quorum %d of %s after %d of %s", next.ID, next.Cluster, first.ID, first.Cluster)
		}
		c.Stop(1)
		c.Configure(1, func(cfg *lighthouse.Config) { cfg.DataDir = old })
		if err := ends(t, c.TryRestart(1)); err == nil || !strings.Contains(err.Error(), "different clusters") {
			t.Errorf("a server of before the recovery ended with %v", err)
		}
	})
}

// A data dir of another cluster is refused by name, and harms nobody.
func TestDataDirOfAnotherCluster(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		c := startCluster(t, 1, lighthousetest.Options{})
		other := startCluster(t, 1, lighthousetest.Options{})
		other.Configure(0, func(cfg *lighthouse.Config) { cfg.Cluster.Join = c.Addresses() })
		other.Stop(0)
		err := ends(t, other.TryRestart(0))
		if err == nil || !strings.Contains(err.Error(), "different clusters") || !strings.Contains(err.Error(), c.Servers[0].Addr) {
			t.Errorf("ended with %v", err)
		}
		settled(t, c, 0, []int{0}, nil)
	})
}

// Two servers with one raft id: the copy ends, the one that was there goes on.
func TestNodeIDUsedTwice(t *testing.T) {
	t.Parallel()
	long(t)
	inBubble(t, func(t *virtual) {
		c := startCluster(t, 3, lighthousetest.Options{Change: func(_ int, cfg *lighthouse.Config) {
			cfg.Cluster.ReplaceAfter = time.Hour
		}})
		settled(t, c, 0, []int{0, 1, 2}, nil)
		twin := c.Followers()[0]
		dir := t.TempDir()
		copyDir(t, c.DataDir(twin), dir)
		hideTheMove(t, dir)
		cfg := c.Config(twin)
		cfg.DataDir, cfg.Listen, cfg.Cluster.Join = dir, "127.0.0.1:0", c.Addresses()
		err := ends(t, c.Try(cfg))
		if err == nil || !strings.Contains(err.Error(), "in use by another server") {
			t.Errorf("the twin ended with %v", err)
		}
		settled(t, c, twin, []int{0, 1, 2}, nil)
	})
}

// hideTheMove makes a copied data dir look as if it had been there always, as a
// snapshot of a disk does.
func hideTheMove(t testing.TB, dir string) {
	t.Helper()
	path := filepath.Join(dir, "cluster.json")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, after, found := strings.Cut(string(data), `"place": {`)
	if !found {
		t.Fatalf("no place in %s", data)
	}
	_, after, _ = strings.Cut(after, "}")
	if err := os.WriteFile(path, []byte(before+`"place": {}`+after), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A server whose data are an old copy is a new server, whether files were put
// back or the disk was: the old data are set aside, and it votes under a new id.
func TestOldCopyIsANewServer(t *testing.T) {
	t.Parallel()
	long(t)
	for _, hidden := range []bool{false, true} {
		t.Run(fmt.Sprintf("hidden=%v", hidden), func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *virtual) {
				c := startCluster(t, 3, lighthousetest.Options{Timing: "slow"})
				settled(t, c, 0, []int{0, 1, 2}, nil)
				i := c.Followers()[0]
				c.Stop(i)
				backup := t.TempDir()
				copyDir(t, c.DataDir(i), backup)
				id := raftIDOf(t, c, i)
				writesMore(t, c, i)
				if hidden {
					hideTheMove(t, backup)
				}
				c.Configure(i, func(cfg *lighthouse.Config) { cfg.DataDir = backup })
				c.Restart(i)
				settled(t, c, i, []int{0, 1, 2}, nil)
				if now := raftIDOf(t, c, i); now == id {
					t.Errorf("it still is %s", id)
				}
				if _, err := os.Stat(filepath.Join(backup, "old-"+id, "log")); err != nil {
					t.Errorf("its data were not set aside: %v", err)
				}
			})
		})
	}
}

// writesMore runs server i, which is down, until it has written a quorum, and stops it.
// A leader that has word of that leads then: should another one follow it meanwhile, the
// server runs again.
func writesMore(t testing.TB, c *lighthousetest.Cluster, i int) {
	t.Helper()
	for range 10 {
		c.Restart(i)
		formIn(t, c, "a", "b")
		c.Eventually("the server has written what came after the copy", func() error {
			if c.Servers[i].Lighthouse.LastQuorum("default") == 0 {
				return fmt.Errorf("not yet")
			}
			return nil
		})
		leader := c.Leader()
		c.Stop(i)
		if leader != i && c.Leader() == leader {
			return
		}
	}
	t.Fatal("the leader changed ten times while a server stopped")
}

// A log that is gone, though raft has run on it, is not begun again under the
// same id.
func TestLostLogIsANewServer(t *testing.T) {
	t.Parallel()
	long(t)
	inBubble(t, func(t *virtual) {
		c := startCluster(t, 3, lighthousetest.Options{Timing: "slow"})
		settled(t, c, 0, []int{0, 1, 2}, nil)
		i := c.Followers()[0]
		id := raftIDOf(t, c, i)
		c.Stop(i)
		for _, name := range []string{"log", "snapshots"} {
			if err := os.RemoveAll(filepath.Join(c.DataDir(i), name)); err != nil {
				t.Fatal(err)
			}
		}
		c.Restart(i)
		settled(t, c, i, []int{0, 1, 2}, nil)
		if now := raftIDOf(t, c, i); now == id {
			t.Errorf("it still is %s", id)
		}
	})
}

// A log whose last bytes are torn or garbage either opens without them or is an
// error; the server never goes on with something else.
func TestCorruptLogTail(t *testing.T) {
	t.Parallel()
	long(t)
	inBubble(t, func(t *virtual) {
		c := startCluster(t, 3, lighthousetest.Options{Timing: "slow"})
		settled(t, c, 0, []int{0, 1, 2}, nil)
		_, gone, first := formIn(t, c, "a", "b")
		for _, r := range gone {
			r.kill()
		}
		i := c.Followers()[0]
		c.Stop(i)
		spoiled := 0
		err := filepath.WalkDir(filepath.Join(c.DataDir(i), "log"), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".wal") {
				return err
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			end := len(data)
			for end > 0 && data[end-1] == 0 { // segments are allocated ahead
				end--
			}
			for k := max(0, end-40); k < end; k++ {
				data[k] ^= 0x5a
			}
			spoiled++
			return os.WriteFile(path, data, 0o600)
		})
		if err != nil || spoiled == 0 {
			t.Fatalf("spoiled %d files: %v", spoiled, err)
		}
		s := c.TryRestart(i)
		c.Eventually("it has ended, or holds what the others hold", func() error {
			select {
			case <-s.Done():
				if err := s.Stop(); err == nil || !strings.Contains(err.Error(), "log") {
					return fmt.Errorf("ended with %v", err)
				}
				return nil
			default:
			}
			if got := s.Lighthouse.LastQuorum("default"); got != first.ID {
				return fmt.Errorf("quorum %d, want %d", got, first.ID)
			}
			return nil
		})
		_, _, next := formIn(t, c, "c", "d")
		if next.ID <= first.ID {
			t.Errorf("quorum %d after %d", next.ID, first.ID)
		}
	})
}
