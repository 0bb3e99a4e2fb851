package lighthouse

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/hashicorp/raft"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/internal/wire"
)

// errOldCopy says that a server's data are older than what it has promised.
var errOldCopy = errors.New("the data dir is an old copy")

// join returns when this server may take part in raft: it belongs to a cluster,
// and nothing speaks against its data. It returns nil too when ctx ends.
func (c *cluster) join(ctx context.Context) error {
	c.mu.Lock()
	founded := c.mu.kept.Standing == wire.StandingFounded
	c.mu.Unlock()
	if founded {
		return c.greet(ctx)
	}
	return c.found(ctx)
}

// open starts gossip and raft. The caller closes the ledger, then calls
// shutdown.
func (c *cluster) open(cfg RaftConfig) (*ledger, error) {
	c.mu.Lock()
	self, k := c.presentLocked(), c.mu.kept
	c.mu.Unlock()
	gossip, ring, err := openGossip(c.cfg.Cluster, c.cfg.Guard.Adopt, self, c.book, c.sampled)
	if err != nil {
		return nil, err
	}
	c.gossip, c.keyring = gossip, ring
	refused := func(from net.Addr, why error) {
		c.sampled.WithLevel(guard.RefusedLevel(why)).Stringer(logkey.Addr, from).Err(why).Msg("raft connection refused")
	}
	listener, dial := limitRaft(c.listener, refused), c.cfg.Cluster.RaftDial
	if wrap := c.cfg.Cluster.RaftListen; wrap != nil {
		listener = wrap(listener)
	}
	if dial == nil {
		dial = func(ctx context.Context, address string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		}
	}
	stream := &raftStream{
		listener: listener, dial: dial, advertise: raftAddr(self.RaftAddress), cluster: self.Cluster, id: self.RaftID,
		hello: c.cfg.HelloTimeout, conns: make(map[net.Conn]struct{}), ready: make(chan accepted), done: make(chan struct{}),
		refused: refused,
	}
	c.peers = newRaftPeers(stream, raftLogger(c.log), c.book.raftAddress)
	cfg.Transport, cfg.LocalID = c.peers, raft.ServerID(self.RaftID)
	l, err := openLedger(ledgerConfig{
		RaftConfig: cfg, dir: c.dir, log: c.log, bootstrap: founders(k, self.RaftID), cluster: self.Cluster,
		bootstrapped: func() error {
			k := c.stands()
			k.Started = true
			return c.keep(k)
		},
		readsDeltas: func(id raft.ServerID) bool {
			e, known := c.book.find(string(id))
			return string(id) == self.RaftID || known && e.Deltas
		},
	})
	if err != nil {
		return nil, errors.Join(err, c.peers.Close(), c.shutdown())
	}
	c.mu.Lock()
	c.mu.raft, c.mu.ledger, c.mu.gossipAt = l.raft, l, c.gossipAddress()
	c.mu.Unlock()
	return l, nil
}

func (c *cluster) stands() kept {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.kept
}

// founders returns the voters with whom a founder begins the log; nil for a
// server that is taken in later.
func founders(k kept, self string) []raft.Server {
	if !isFounder(k.Founders, self) {
		return nil
	}
	var all []raft.Server
	for _, f := range k.Founders {
		all = append(all, raft.Server{ID: raft.ServerID(f.RaftID), Address: raft.ServerAddress(f.RaftAddress)})
	}
	return all
}

// gossipAddress is where gossip is reached.
func (c *cluster) gossipAddress() string {
	n := c.gossip.LocalNode()
	return net.JoinHostPort(n.Addr.String(), fmt.Sprint(n.Port))
}

// watch keeps the cluster together until ctx ends: it joins gossip with every
// server that is known and not seen, passes raft's leader changes on, and keeps
// what a restart needs.
func (c *cluster) watch(ctx context.Context, l *ledger) error {
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
		_, changed := c.book.all()
		everybody := time.Since(asked) > askAllEvery
		if everybody {
			asked = time.Now()
		}
		err := c.reach(ctx, everybody)
		switch {
		case errors.Is(err, errRetired):
			return err
		case err == nil:
			twice = time.Time{}
		case !errors.Is(err, errTwice):
			c.log.Warn().Err(err).Msg("server refused")
		case twice.IsZero():
			twice = time.Now()
		case time.Since(twice) > twiceTimeout:
			return err
		}
		if c.keyring != nil {
			if err := rekey(c.keyring, c.cfg.Cluster.GossipKeys()); err != nil {
				c.log.Warn().Err(err).Msg("gossip keys not changed")
			}
		}
		if err := c.remember(l); err != nil {
			c.log.Warn().Err(err).Msg("servers not kept")
		}
		c.leaderMoved()
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
func (c *cluster) reach(ctx context.Context, everybody bool) error {
	seen := []string{c.me().RPCAddress}
	entries, _ := c.book.all()
	for _, e := range entries {
		if e.alive && !everybody {
			seen = append(seen, e.RPC)
		}
	}
	unseen := slices.DeleteFunc(c.addresses(), func(a string) bool { return slices.Contains(seen, a) })
	if len(unseen) == 0 {
		return nil
	}
	gossips, err := c.introduce(ctx, unseen)
	gossips = slices.DeleteFunc(gossips, func(a string) bool {
		return slices.ContainsFunc(entries, func(e entry) bool { return e.alive && e.gossip == a })
	})
	if len(gossips) > 0 {
		if _, err := c.gossip.Join(gossips); err != nil {
			c.log.Debug().Err(err).Msg("gossip not joined")
		}
	}
	return err
}

// remember writes down what a restart needs, when it has changed.
func (c *cluster) remember(l *ledger) error {
	known := c.servers()
	known = slices.DeleteFunc(known, func(a string) bool { return a == c.me().RPCAddress })
	known = known[:min(len(known), wire.MaxKnown)]
	k := c.stands()
	if started := k.Started || l.raft.LastIndex() > 0; started != k.Started || !slices.Equal(known, k.Known) {
		k.Started, k.Known = started, known
		return c.keep(k)
	}
	return nil
}

// shutdown tells the others that this process stops, and ends gossip.
func (c *cluster) shutdown() error {
	if c.gossip == nil {
		return nil
	}
	left := c.gossip.Leave(goodbyeTimeout)
	if left != nil {
		c.log.Debug().Err(left).Msg("gossip not told") // it finds out by itself
	}
	return c.endGossip(c.gossip)
}

func (c *cluster) endGossip(g *memberlist.Memberlist) error {
	if err := g.Shutdown(); err != nil {
		return fmt.Errorf("end gossip: %w", err)
	}
	return nil
}
