package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/lighthouse/cluster/internal/datadir"
)

// open starts gossip and raft; Close ends them.
func (n *Node) open() (*Ledger, error) {
	cfg := ledgerConfig{RaftOptions: n.cfg.Raft, dir: n.dir, log: n.cfg.Log}
	if n.several {
		if err := n.openPeers(&cfg); err != nil {
			return nil, err
		}
	}
	l, err := openLedger(cfg)
	if err != nil {
		if n.several {
			err = errors.Join(err, n.peers.Close())
		}
		return nil, err
	}
	if !n.several {
		self := *n.me()
		self.RaftID = string(l.id)
		n.who.Store(&self)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.ledger = l
	return l, nil
}

// openPeers opens gossip and raft's port, and completes cfg for one of several
// servers.
func (n *Node) openPeers(cfg *ledgerConfig) error {
	n.mu.Lock()
	self, k := n.presentLocked(), n.mu.saved
	n.mu.Unlock()
	gossip, ring, err := openGossip(n.cfg.Options, n.cfg.Network, n.cfg.Guard.Adopt, self, n.book, n.cfg.Sampled)
	if err != nil {
		return err
	}
	n.gossip, n.keyring = gossip, ring
	n.mu.Lock()
	n.mu.gossipAt = gossip.LocalNode().Address()
	n.mu.Unlock()
	refused := func(from net.Addr, why error) {
		n.cfg.Sampled.WithLevel(guard.RefusedLevel(why)).Stringer(logkey.Addr, from).Err(why).Msg("raft connection refused")
	}
	stream := newRaftStream(limitRaft(n.listener, refused), self, n.cfg.HelloTimeout, refused)
	stream.dial = func(ctx context.Context, address string) (net.Conn, error) {
		return dialRaft(ctx, n.cfg.Network, n.cfg.Guard.Speaks(), address)
	}
	stream.accept = func(conn net.Conn) (net.Conn, error) { return acceptRaft(n.cfg.Guard, conn) }
	n.peers = newRaftPeers(stream, raftLogger(n.cfg.Log), n.book.raftAddress)
	cfg.Transport, cfg.LocalID = n.peers, raft.ServerID(self.RaftID)
	cfg.bootstrap, cfg.cluster = founders(k, self.RaftID), self.Cluster
	cfg.bootstrapped = func() error {
		k := n.saved()
		k.Started = true
		return n.save(k)
	}
	cfg.readsDeltas = func(id raft.ServerID) bool {
		e, known := n.book.find(string(id))
		return string(id) == self.RaftID || known && e.Deltas
	}
	return nil
}

func (n *Node) saved() datadir.Record {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.mu.saved
}

// founders returns the voters with whom a founder begins the log; nil for a
// server that is taken in later.
func founders(k datadir.Record, self string) []raft.Server {
	if !isFounder(k.Founders, self) {
		return nil
	}
	var all []raft.Server
	for _, f := range k.Founders {
		all = append(all, raft.Server{ID: raft.ServerID(f.RaftID), Address: raft.ServerAddress(f.RaftAddress)})
	}
	return all
}

// watch keeps the cluster together until ctx ends: it joins gossip with every
// server that is known and not seen, passes raft's leader changes on, and keeps
// what a restart needs.
func (n *Node) watch(ctx context.Context, l *Ledger) error {
	leaders := make(chan raft.Observation, 1)
	observer := raft.NewObserver(leaders, false, func(o *raft.Observation) bool {
		_, ok := o.Data.(raft.LeaderObservation)
		return ok
	})
	l.raft.RegisterObserver(observer)
	defer l.raft.DeregisterObserver(observer)
	tick := time.NewTicker(introduceEvery)
	defer tick.Stop()
	var twice, asked time.Time // since when somebody says so; when all were asked
	for {
		_, changed := n.book.all()
		everybody := time.Since(asked) > askAllEvery
		if everybody {
			asked = time.Now()
		}
		err := n.reach(ctx, everybody)
		switch {
		case errors.Is(err, errRetired):
			return err
		case err == nil:
			twice = time.Time{}
		case !errors.Is(err, errTwice):
			n.cfg.Log.Warn().Err(err).Msg("server refused")
		case twice.IsZero():
			twice = time.Now()
		case time.Since(twice) > twiceTimeout:
			return err
		}
		if n.keyring != nil {
			if err := rekey(n.keyring, n.cfg.GossipKeys()); err != nil {
				n.cfg.Log.Warn().Err(err).Msg("gossip keys not changed")
			}
		}
		if err := n.remember(l); err != nil {
			n.cfg.Log.Warn().Err(err).Msg("servers not kept")
		}
		n.leaderMoved()
		select {
		case <-ctx.Done():
			return nil
		case <-leaders:
		case <-changed:
		case <-tick.C:
		}
	}
}

// askAllEvery is how often the servers that gossip sees are asked as well: only
// so does a server hear that it was taken out.
const askAllEvery = 2 * time.Second

// reach introduces this server to those whom gossip does not see, or to
// everybody, and joins gossip with them.
func (n *Node) reach(ctx context.Context, everybody bool) error {
	seen := []string{n.me().RPCAddress}
	entries, _ := n.book.all()
	for _, e := range entries {
		if e.alive && !everybody {
			seen = append(seen, e.RPC)
		}
	}
	unseen := slices.DeleteFunc(n.addresses(), func(a string) bool { return slices.Contains(seen, a) })
	if len(unseen) == 0 {
		return nil
	}
	gossips, err := n.introduce(ctx, unseen)
	gossips = slices.DeleteFunc(gossips, func(a string) bool {
		return slices.ContainsFunc(entries, func(e entry) bool { return e.alive && e.gossip == a })
	})
	if len(gossips) > 0 {
		if _, err := n.gossip.Join(gossips); err != nil {
			n.cfg.Log.Debug().Err(err).Msg("gossip not joined")
		}
	}
	return err
}

// remember writes down what a restart needs, when it has changed.
func (n *Node) remember(l *Ledger) error {
	known := n.Servers()
	known = slices.DeleteFunc(known, func(a string) bool { return a == n.me().RPCAddress })
	known = known[:min(len(known), wire.MaxKnown)]
	k := n.saved()
	if started := k.Started || l.raft.LastIndex() > 0; started != k.Started || !slices.Equal(known, k.Known) {
		k.Started, k.Known = started, known
		return n.save(k)
	}
	return nil
}

// leaveGossip tells the others that this process stops, and ends gossip.
func (n *Node) leaveGossip() error {
	if n.gossip == nil {
		return nil
	}
	if err := n.gossip.Leave(goodbyeTimeout); err != nil {
		n.cfg.Log.Debug().Err(err).Msg("gossip not told") // it finds out by itself
	}
	if err := n.gossip.Shutdown(); err != nil {
		return fmt.Errorf("end gossip: %w", err)
	}
	return nil
}
