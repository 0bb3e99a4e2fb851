package lighthousetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/portlease"
	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/lighthouse/cluster"
	"github.com/skerry-ft/skerry/lighthouse/internal/network"
)

// patience bounds the waits of this package. It is long, because a failure is
// rare and a busy machine is not.
const patience = 60 * time.Second

// Options are those of a cluster.
type Options struct {
	// Timing is a name of cluster.Timings. Empty is "slow", which a busy
	// test machine upsets least.
	Timing string

	// Spares are started beside the founders and join them.
	Spares int

	// Network is server i's, in which all have the address 127.0.0.1. Then
	// the test's time is virtual. nil: loopback.
	Network func(i int) network.Network

	// Change alters the configuration of server i before each of its starts.
	Change func(i int, c *lighthouse.Config)
}

// Cluster is several servers that found a cluster together, each
// with a data dir. It is owned by one goroutine.
type Cluster struct {
	// Servers are the founders and then the spares. Restart replaces one.
	Servers []*Server

	t       testing.TB
	tick    time.Duration // between two looks
	configs []lighthouse.Config
	down    []bool
}

// StartCluster runs n servers that found a cluster together, and the spares, and
// returns when one of them leads. They are stopped when the test ends.
func StartCluster(t testing.TB, n int, o Options) *Cluster {
	t.Helper()
	c := &Cluster{t: t, tick: 5 * time.Millisecond}
	if o.Network != nil {
		c.tick = 100 * time.Millisecond                 // in virtual time a look costs more than the wait
		t.Cleanup(func() { <-time.After(time.Minute) }) // gossip's last probes end after their servers
	}
	timing, ok := cluster.Timings()[o.Timing]
	if !ok {
		timing = cluster.Timings()["slow"]
	}
	var addrs []string
	if o.Network == nil {
		// Leased: else the kernel gives the address of a server that is down to another test's,
		// which the others of this cluster then take in.
		addrs = portlease.ForTest(t, n+o.Spares)
	}
	for i := range n + o.Spares {
		cfg := defaults(t)
		if o.Network == nil {
			cfg.Listen = addrs[i]
		} else {
			cfg.Network = o.Network(i)
		}
		cfg.Log = cfg.Log.With().Int("server", i).Logger()
		cfg.DataDir = t.TempDir()
		cfg.Raft.Heartbeat, cfg.Raft.Election, cfg.Raft.Lease = timing.Heartbeat, timing.Election, timing.Lease
		cfg.Cluster.RaftAddress, cfg.Cluster.GossipAddress = "127.0.0.1:0", "127.0.0.1:0"
		cfg.Cluster.StableFor = 300 * time.Millisecond
		if i < n {
			cfg.Cluster.Expect = n
		}
		if i > 0 {
			cfg.Cluster.Join = []string{c.Servers[0].Addr}
		}
		if o.Change != nil {
			o.Change(i, &cfg)
		}
		s := start(t, cfg)
		cfg.Listen = s.Addr
		c.Servers, c.configs, c.down = append(c.Servers, s), append(c.configs, cfg), append(c.down, false)
	}
	c.Leader()
	return c
}

// Addresses returns the RPC addresses of all servers, running or not.
func (c *Cluster) Addresses() []string {
	var all []string
	for _, s := range c.Servers {
		all = append(all, s.Addr)
	}
	return all
}

// Leader waits until exactly one of the running servers leads, and returns its
// index.
func (c *Cluster) Leader() int {
	c.t.Helper()
	leader := -1
	c.Eventually("one server leads", func() error {
		var leaders []int
		for i, s := range c.Servers {
			select {
			case <-s.Done():
				c.down[i] = true
			default:
			}
			if st, err := s.Lighthouse.Status(c.t.Context()); !c.down[i] && err == nil && st.Leads {
				leaders = append(leaders, i)
			}
		}
		if len(leaders) != 1 {
			return fmt.Errorf("servers %v lead", leaders)
		}
		leader = leaders[0]
		return nil
	})
	return leader
}

// Followers returns the indexes of the running servers that do not lead.
func (c *Cluster) Followers() []int {
	c.t.Helper()
	leader := c.Leader()
	var all []int
	for i := range c.Servers {
		if i != leader && !c.down[i] {
			all = append(all, i)
		}
	}
	return all
}

// Stop stops a server as SIGTERM would, and waits.
func (c *Cluster) Stop(i int) {
	c.t.Helper()
	c.down[i] = true
	if err := c.Servers[i].Stop(); err != nil {
		c.t.Fatalf("stop server %d: %v", i, err)
	}
}

// Restart stops a server if it runs, and starts it again with its data and its
// RPC address. Its raft and gossip take free ports again, so the others have to
// find it.
func (c *Cluster) Restart(i int) {
	c.t.Helper()
	if !c.down[i] {
		c.Stop(i)
	}
	c.Servers[i] = start(c.t, c.configs[i])
	c.down[i] = false
}

// TryRestart is Restart for a server that may end by itself, with an error, or
// not start at all: who calls it reads Done and Stop.
func (c *Cluster) TryRestart(i int) *Server {
	c.t.Helper()
	return c.Try(c.configs[i])
}

// Try runs a server that may end by itself, beside those of the cluster.
func (c *Cluster) Try(cfg lighthouse.Config) *Server {
	c.t.Helper()
	s, err := launch(cfg)
	if err != nil {
		ended := make(chan struct{})
		close(ended)
		return &Server{done: ended, stop: func() {}, err: err}
	}
	c.t.Cleanup(func() { _ = s.Stop() }) // its error is the caller's
	return s
}

// Config is a server's configuration, as of its next start.
func (c *Cluster) Config(i int) lighthouse.Config { return c.configs[i] }

// DataDir is a server's.
func (c *Cluster) DataDir(i int) string { return c.configs[i].DataDir }

// Configure alters a server's configuration from its next start on.
func (c *Cluster) Configure(i int, change func(*lighthouse.Config)) { change(&c.configs[i]) }

// Eventually waits until ok returns nil, and else fails the test with its last
// error.
func (c *Cluster) Eventually(what string, ok func() error) {
	c.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := ok()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("after %v: still not: %s: %v", patience, what, err)
		}
		<-time.After(c.tick)
	}
}
