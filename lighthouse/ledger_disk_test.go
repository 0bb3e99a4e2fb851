package lighthouse_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"golang.org/x/sys/unix"

	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/lighthouse/cluster"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
	"github.com/skerry-ft/skerry/quorum"
)

// badDisk is a disk that fails, or takes its time, when told to.
type badDisk struct {
	cluster.Disk

	mu   sync.Mutex
	err  error
	slow time.Duration
	hang <-chan struct{} // writes wait until it is closed; nil: they do not
}

func (d *badDisk) set(err error, slow time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err, d.slow = err, slow
}

// hangUntil makes writes wait, and then take place.
func (d *badDisk) hangUntil(over <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hang = over
}

// write waits as a slow disk does, and returns its error.
func (d *badDisk) write() error {
	d.mu.Lock()
	err, slow, hang := d.err, d.slow, d.hang
	d.mu.Unlock()
	<-time.After(slow)
	if hang != nil {
		<-hang
	}
	return err
}

func (d *badDisk) StoreLog(l *raft.Log) error { return errors.Join(d.write(), d.Disk.StoreLog(l)) }

func (d *badDisk) StoreLogs(all []*raft.Log) error {
	if err := d.write(); err != nil {
		return err
	}
	return d.Disk.StoreLogs(all)
}

func (d *badDisk) Set(key, value []byte) error {
	if err := d.write(); err != nil {
		return err
	}
	return d.Disk.Set(key, value)
}

func (d *badDisk) SetUint64(key []byte, value uint64) error {
	if err := d.write(); err != nil {
		return err
	}
	return d.Disk.SetUint64(key, value)
}

// The leader's disk is full, or read-only: it steps down, another server leads,
// and goes on with higher ids. When there is space again, the server holds what
// the others hold.
func TestLeadersDiskFails(t *testing.T) {
	t.Parallel()
	long(t)
	for _, why := range []error{unix.ENOSPC, unix.EROFS} {
		t.Run(why.Error(), func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *virtual) {
				disks := make([]*badDisk, 3)
				c := startCluster(t, 3, lighthousetest.Options{Timing: "slow",
					Change: func(i int, cfg *lighthouse.Config) {
						cfg.Raft.Disk = func(d cluster.Disk) cluster.Disk {
							disks[i] = &badDisk{Disk: d}
							return disks[i]
						}
					}})
				settled(t, c, 0, []int{0, 1, 2}, nil)
				old, gone, first := formIn(t, c, "a", "b")
				disks[old].set(why, 0)
				for _, r := range gone {
					r.join(quorum.JoinFall, func(j *quorum.Join) {
						j.Fact = quorum.Fact{Kind: quorum.Refused, Step: 1, QuorumID: first.ID}
					})
				}
				c.Eventually("another server leads, and goes on leading", func() error {
					before, err := c.Servers[c.Leader()].Lighthouse.Status(t.Context())
					if err != nil || c.Leader() == old {
						return fmt.Errorf("server %d still does, %v", old, err)
					}
					<-time.After(time.Second)
					after, err := c.Servers[c.Leader()].Lighthouse.Status(t.Context())
					if err != nil || after.Term != before.Term {
						return fmt.Errorf("term %d after %d, %v", after.Term, before.Term, err)
					}
					return nil
				})
				for _, r := range gone {
					r.kill()
				}
				_, _, second := formIn(t, c, "c", "d")
				if second.ID <= first.ID || second.Cluster != first.Cluster {
					t.Errorf("quorum %d after %d", second.ID, first.ID)
				}
				disks[old].set(nil, 0)
				c.Eventually("the disk's server has caught up", func() error {
					if got := c.Servers[old].Lighthouse.LastQuorum("default"); got < second.ID {
						return fmt.Errorf("quorum %d, want %d", got, second.ID)
					}
					return nil
				})
			})
		})
	}
}

// A server whose disk fails for good still ends when it is told to, and a
// majority with good disks never notices.
func TestStopWithAFailedDisk(t *testing.T) {
	t.Parallel()
	long(t)
	inBubble(t, func(t *virtual) {
		disks := make([]*badDisk, 3)
		c := startCluster(t, 3, lighthousetest.Options{Change: func(i int, cfg *lighthouse.Config) {
			cfg.Raft.Disk = func(d cluster.Disk) cluster.Disk {
				disks[i] = &badDisk{Disk: d}
				return disks[i]
			}
		}})
		settled(t, c, 0, []int{0, 1, 2}, nil)
		bad := c.Followers()[0]
		disks[bad].set(unix.EIO, 0)
		c.Stop(c.Leader()) // an election: the bad one can write down neither term nor vote
		c.Eventually("the bad disk's server does not lead", func() error {
			st, err := c.Servers[bad].Lighthouse.Status(t.Context())
			if err != nil || st.Leads {
				return fmt.Errorf("leads: %v, %v", st.Leads, err)
			}
			return nil
		})
		c.Stop(bad)
	})
}

// Disks that take a tenth of a second for each write delay quorums and lose
// none.
func TestSlowDisks(t *testing.T) {
	t.Parallel()
	long(t)
	inBubble(t, func(t *virtual) {
		c := startCluster(t, 3, lighthousetest.Options{Timing: "slow",
			Change: func(_ int, cfg *lighthouse.Config) {
				cfg.Raft.Disk = func(d cluster.Disk) cluster.Disk { return &badDisk{Disk: d, slow: 100 * time.Millisecond} }
			}})
		_, _, q := formIn(t, c, "a", "b")
		for i, s := range c.Servers {
			c.Eventually(fmt.Sprintf("server %d holds the quorum", i), func() error {
				if got := s.Lighthouse.LastQuorum("default"); got != q.ID {
					return fmt.Errorf("%d", got)
				}
				return nil
			})
		}
	})
}

// A data dir on a file system that is full or read-only is an error that says so
// at once.
func TestDataDirThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("mounting a small file system needs root")
	}
	for _, tc := range []struct {
		options string
		flags   uintptr
		want    string
	}{
		{"size=64k", 0, "no space left"},
		{"size=8m", unix.MS_RDONLY, "read-only file system"},
	} {
		dir := filepath.Join(t.TempDir(), "small")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("tmpfs", dir, "tmpfs", tc.flags, tc.options); err != nil {
			t.Skipf("mount tmpfs: %v", err)
		}
		t.Cleanup(func() {
			if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
		cfg := lighthouse.DefaultConfig()
		cfg.Listen, cfg.DataDir, cfg.Cluster.Expect = "127.0.0.1:0", dir, 1
		server, err := lighthouse.New(cfg)
		if err == nil {
			err = server.Run(t.Context())
		}
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q in it", tc.options, err, tc.want)
		}
	}
}

// A clock that was years ahead when a server last started, and is right again,
// keeps nobody out.
func TestClockJumpsBack(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		c := startCluster(t, 3, lighthousetest.Options{})
		settled(t, c, 0, []int{0, 1, 2}, nil)
		i := c.Followers()[0]
		c.Stop(i)
		path := filepath.Join(c.DataDir(i), "cluster.json")
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		before, after, found := strings.Cut(string(data), `"boot": `)
		_, after, _ = strings.Cut(after, ",")
		ahead := time.Now().AddDate(5, 0, 0).UnixNano()
		if err := os.WriteFile(path, fmt.Appendf(nil, `%s"boot": %d,%s`, before, ahead, after), 0o600); err != nil || !found {
			t.Fatal(err, found)
		}
		for range 2 { // what the others saw of it is ahead as well, from the first time on
			c.Restart(i)
			settled(t, c, i, []int{0, 1, 2}, nil)
			c.Eventually("it is alive", func() error {
				all, err := members(t, c.Servers[c.Leader()].Addr)
				for _, m := range all.GetMembers() {
					if !m.GetAlive() {
						return fmt.Errorf("%v", m)
					}
				}
				return err
			})
		}
	})
}
