package cluster

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"github.com/skerry-ft/skerry/internal/monitor"
	"github.com/skerry-ft/skerry/internal/wire"
)

// directory knows where servers are and which are alive, by gossip. It is safe
// for concurrent use and calls nobody.
type directory struct {
	mu      monitor.Monitor  // that servers has changed
	servers map[string]entry // by raft id
}

// entry is one server.
type entry struct {
	gossipNode
	gossip string    // its gossip address
	alive  bool      // as far as gossip knows
	since  time.Time // when alive last changed; zero: never seen alive
}

func newDirectory() *directory {
	return &directory{servers: make(map[string]entry)}
}

// learn notes an address that was told otherwise than by gossip. What gossip
// knows counts more.
func (d *directory) learn(g gossipNode) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e, known := d.servers[g.RaftID]; known && (e.alive || e.Boot >= g.Boot) {
		return
	}
	d.put(entry{gossipNode: g})
}

// alive notes that gossip sees a process. Of two with one raft id the newer
// counts.
func (d *directory) alive(g gossipNode, gossip string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e := d.servers[g.RaftID]
	if e.Boot > g.Boot {
		return
	}
	since := time.Now()
	if e.alive && e.Boot == g.Boot {
		since = e.since
	}
	d.put(entry{gossipNode: g, gossip: gossip, alive: true, since: since})
}

// gone notes that gossip lost a process.
func (d *directory) gone(g gossipNode) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e := d.servers[g.RaftID]; e.Boot == g.Boot && e.alive {
		e.alive, e.since = false, time.Now()
		d.put(e)
	}
}

// put keeps e, and drops who has been gone longest when there are too many.
func (d *directory) put(e entry) {
	d.servers[e.RaftID] = e
	for len(d.servers) > wire.MaxServers {
		dead := slices.Collect(maps.Values(d.servers))
		dead = slices.DeleteFunc(dead, func(e entry) bool { return e.alive })
		if len(dead) == 0 {
			break
		}
		delete(d.servers, slices.MinFunc(dead, func(a, b entry) int { return a.since.Compare(b.since) }).RaftID)
	}
	d.mu.Broadcast()
}

// find returns a server by raft id.
func (d *directory) find(id string) (entry, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e, ok := d.servers[id]
	return e, ok
}

// raftAddress is where a server's raft is now, or otherwise if nobody knows.
func (d *directory) raftAddress(id raft.ServerID, otherwise raft.ServerAddress) raft.ServerAddress {
	if e, ok := d.find(string(id)); ok && e.Raft != "" {
		return raft.ServerAddress(e.Raft)
	}
	return otherwise
}

// all returns all servers, sorted by raft id, and a channel that is closed when
// that changes.
func (d *directory) all() ([]entry, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := slices.Collect(maps.Values(d.servers))
	slices.SortFunc(all, func(a, b entry) int { return cmp.Compare(a.RaftID, b.RaftID) })
	return all, d.mu.Changed()
}

// sortedKeys returns a map's keys in order.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
