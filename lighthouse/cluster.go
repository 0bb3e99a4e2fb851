package lighthouse

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/memberlist"
	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/internal/wire"
)

const (
	// introduceEvery is how often a server that waits for its cluster asks
	// around, and one that is in it asks for those whom gossip does not see.
	introduceEvery = 200 * time.Millisecond

	// introduceTimeout bounds one such call.
	introduceTimeout = time.Second

	// refusedTimeout bounds a look whether somebody listens at an address.
	refusedTimeout = 300 * time.Millisecond

	// twiceTimeout is how long another process may be seen under this server's
	// raft id before that is an error. A restart at another address is soon
	// over for gossip.
	twiceTimeout = 3 * time.Second
)

var (
	errTwice    = errors.New("this raft id is in use by another server")
	errClusters = errors.New("the servers are of different clusters")
)

// cluster is one server's part in a cluster of several: it finds the others,
// founds the cluster with them or is taken in, and knows who is there. It is
// safe for concurrent use, except that run is called once, and open by run's
// caller alone.
type cluster struct {
	cfg      Config
	log      zerolog.Logger
	sampled  zerolog.Logger // for the lines that strangers cause
	dir      *dataDir
	listener net.Listener // raft's
	guard    *guard.Guard // for calls of other servers
	book     *directory
	who      atomic.Pointer[wire.Server] // this server; how it stands is in mu

	peers  *raftPeers             // set by open
	gossip *memberlist.Memberlist // set by open

	keyring *memberlist.Keyring // gossip's, set by open; nil: gossip is in the clear; watch's

	mu struct {
		sync.Mutex

		kept     kept            // as written down
		words    map[string]word // by raft id
		known    map[string]bool // RPC addresses of others, as far as anybody named them
		heard    chan struct{}   // capacity 1: a word came
		waits    string          // for what; "" when founded
		gossipAt string          // gossip's address, once it is open
		raft     *raft.Raft      // once it is open
		ledger   *ledger         // likewise
		leads    time.Time       // since when this server leads, as far as tend has seen
		next     string          // the membership change that comes next, or why none does
		changed  chan struct{}   // closed when the leader, or what is known of it, changes
	}
}

// newCluster listens for raft and reads what the data dir keeps. rpc is the
// server's own listener.
func newCluster(cfg Config, dir *dataDir, rpc net.Listener, log zerolog.Logger) (*cluster, error) {
	k, err := dir.openCovenant(log)
	if err != nil {
		return nil, err
	}
	id, err := dir.raftID()
	if err != nil {
		return nil, err
	}
	index, err := dir.lastIndex()
	if err != nil {
		return nil, err
	}
	host, err := advertisedHost(cfg, rpc)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", cfg.Cluster.RaftAddress)
	if err != nil {
		return nil, fmt.Errorf("listen for raft: %w", listenError(cfg.Cluster.RaftAddress, err))
	}
	if k.Boot = max(k.Boot+1, uint64(time.Now().UnixNano())); cfg.Cluster.Voters > 0 {
		k.Voters = cfg.Cluster.Voters
	}
	if err := dir.writeCovenant(k); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	c := &cluster{cfg: cfg, log: log, dir: dir, listener: listener, book: newDirectory()}
	self := wire.Server{
		RaftID: id, Boot: k.Boot, Version: cfg.Version, Expect: cfg.Cluster.Expect, LastIndex: index, NonVoter: cfg.Cluster.NonVoter,
		RPCAddress:  cfg.Advertise,
		RaftAddress: net.JoinHostPort(host, portOf(listener)),
	}
	if self.RPCAddress == "" {
		self.RPCAddress = net.JoinHostPort(host, portOf(rpc))
	}
	c.who.Store(&self)
	c.mu.kept = k
	c.mu.words = make(map[string]word)
	c.mu.known = make(map[string]bool)
	c.mu.heard = make(chan struct{}, 1)
	c.mu.changed = make(chan struct{})
	for _, a := range slices.Concat(cfg.Cluster.Join, k.Known) {
		c.mu.known[a] = true
	}
	c.learnFounders(k.Founders)
	return c, nil
}

func portOf(l net.Listener) string {
	_, port, _ := net.SplitHostPort(l.Addr().String()) // a listener's address has one
	return port
}

// advertisedHost is the host by which other servers reach this one: that of
// Advertise, or of Listen, or else the one of our own from which the first
// server of Join is reached.
func advertisedHost(cfg Config, rpc net.Listener) (string, error) {
	if cfg.Advertise != "" {
		host, _, err := net.SplitHostPort(cfg.Advertise)
		return host, err
	}
	addr, ok := rpc.Addr().(*net.TCPAddr)
	if ok && !addr.IP.IsUnspecified() {
		return addr.IP.String(), nil
	}
	for _, a := range cfg.Cluster.Join {
		conn, err := net.Dial("udp", a) // sends nothing: it asks the routing table
		if err != nil {
			continue
		}
		host, _, err := net.SplitHostPort(conn.LocalAddr().String())
		_ = conn.Close() // nothing was sent
		if ip := net.ParseIP(host); err == nil && ip != nil && !ip.IsLoopback() {
			return host, nil
		}
	}
	return "", fmt.Errorf("Advertise = %q, want host:port that other servers can dial: Listen = %s names no host",
		cfg.Advertise, cfg.Listen)
}

// me is this server. Its raft id changes if its data turn out to be of no use.
func (c *cluster) me() *wire.Server { return c.who.Load() }

// present is what this server says of itself now.
func (c *cluster) present() wire.Server {
	c.mu.Lock()
	s := c.presentLocked()
	r := c.mu.raft
	c.mu.Unlock()
	if r != nil {
		_, leader := r.LeaderWithID()
		s.LastIndex, s.Working = r.LastIndex(), leader != ""
	}
	return s
}

func (c *cluster) presentLocked() wire.Server {
	s, k := *c.me(), c.mu.kept
	s.Standing, s.Cluster, s.Proposer, s.Founders = k.Standing, k.Cluster, k.Proposer, k.Founders
	s.Voters, s.Abandoned, s.Forsaken, s.GossipAddress = k.Voters, k.Abandoned, k.Forsaken, c.mu.gossipAt
	return s
}

// learnFounders notes where the founders were.
func (c *cluster) learnFounders(all []wire.Founder) {
	for _, f := range all {
		if f.RaftID != c.me().RaftID {
			c.book.learn(gossipNode{RaftID: f.RaftID, RPC: f.RPCAddress, Raft: f.RaftAddress})
			c.mu.Lock()
			c.mu.known[f.RPCAddress] = true
			c.mu.Unlock()
		}
	}
}

// hear takes what another server says, from itself. An error is for it to be
// told, or, if it was us who asked, for us.
func (c *cluster) hear(i wire.Introduction) error {
	s := i.Self
	if s.RaftID == c.me().RaftID {
		if s.Boot == c.me().Boot {
			return nil // one of the addresses is our own
		}
		return fmt.Errorf("%w: %s is %s's and %s's: one data dir is a copy of the other's; start it with an empty one",
			errTwice, s.RaftID, c.me().RPCAddress, s.RPCAddress)
	}
	if e, ok := c.book.find(s.RaftID); ok && e.alive && e.Boot != s.Boot && e.RPC != s.RPCAddress && !refuses(e.RPC) {
		return fmt.Errorf("%w: %s is alive at %s and starts at %s: one data dir is a copy of the other's; start it with an empty one",
			errTwice, s.RaftID, e.RPC, s.RPCAddress)
	}
	if known, err := c.noteWord(i); err != nil || !known {
		return err
	}
	c.book.learn(gossipNode{RaftID: s.RaftID, Boot: s.Boot, RPC: s.RPCAddress, Raft: s.RaftAddress,
		Cluster: s.Cluster, Version: s.Version, NonVoter: s.NonVoter})
	return nil
}

// refuses tells whether nobody listens at address any more: gossip may take long
// to see that a server was killed, above all if it is alone to see it. One that
// does not answer at all may only be out of our reach.
func refuses(address string) bool {
	conn, err := net.DialTimeout("tcp", address, refusedTimeout)
	if err == nil {
		_ = conn.Close() // nothing was said
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

// noteWord keeps a server's word, unless it is older than the one we have or of
// another cluster.
func (c *cluster) noteWord(i wire.Introduction) (fresh bool, err error) {
	s := i.Self
	c.mu.Lock()
	defer c.mu.Unlock()
	mine := c.mu.kept.covenant
	if mine.Standing == wire.StandingFounded && s.Standing == wire.StandingFounded && mine.Cluster != s.Cluster {
		return false, fmt.Errorf("%w: %s is of %s, %s is of %s: give it the data dir or the servers of its own cluster",
			errClusters, c.me().RPCAddress, mine.Cluster, s.RPCAddress, s.Cluster)
	}
	old, known := c.mu.words[s.RaftID]
	if old.server.Boot > s.Boot {
		return false, nil
	}
	if known || len(c.mu.words) < wire.MaxServers {
		c.mu.words[s.RaftID] = word{s, time.Now()}
	}
	for _, a := range append(slices.Clone(i.Known), s.RPCAddress) {
		if a != c.me().RPCAddress && len(c.mu.known) < wire.MaxKnown {
			c.mu.known[a] = true
		}
	}
	select {
	case c.mu.heard <- struct{}{}:
	default:
	}
	return true, nil
}

// addresses returns the RPC addresses of others, sorted.
func (c *cluster) addresses() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return sortedKeys(c.mu.known)
}

// introduce tells every server at these addresses who we are, hears who they
// are, and returns what was wrong with that. Silence is not wrong.
func (c *cluster) introduce(ctx context.Context, addresses []string) (gossips []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, introduceTimeout)
	defer cancel()
	var asking sync.WaitGroup
	var mu sync.Mutex // guards the results
	for _, a := range addresses {
		asking.Go(func() {
			heard, e := c.ask(ctx, a)
			if e == nil && heard != nil {
				e = c.hear(*heard)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, wrong := range []error{errTwice, errClusters, errOldCopy, errRetired} {
				if errors.Is(e, wrong) {
					err = errors.Join(err, e)
				}
			}
			if heard != nil && heard.Self.GossipAddress != "" && heard.Self.RaftID != c.me().RaftID {
				gossips = append(gossips, heard.Self.GossipAddress)
			}
		})
	}
	asking.Wait()
	return gossips, err
}

// found returns when this server belongs to a cluster that exists. What it
// waits for is logged when it changes.
func (c *cluster) found(ctx context.Context) error {
	tick := time.NewTicker(introduceEvery)
	defer tick.Stop()
	for {
		if _, err := c.introduce(ctx, c.addresses()); err != nil {
			return err
		}
		done, err := c.decide()
		if done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-c.mu.heard:
			if done, err := c.decide(); done || err != nil {
				return err
			}
			select { // what we decided is told at once, but not in a frenzy
			case <-ctx.Done():
				return nil
			case <-time.After(introduceEvery / 10):
			}
		case <-tick.C:
		}
	}
}

// decide takes the next steps towards a cluster. Each is written down before
// it is told.
func (c *cluster) decide() (founded bool, err error) {
	for {
		c.mu.Lock()
		b := bootstrap{
			now: time.Now(), self: *c.me(), stands: c.mu.kept.covenant, expect: c.cfg.Cluster.Expect,
			words: maps.Clone(c.mu.words), join: c.cfg.Cluster.Join, draw: uuid.NewString,
		}
		k, waited := c.mu.kept, c.mu.waits
		c.mu.Unlock()
		next, waits, err := b.next()
		if err != nil {
			return false, err
		}
		changed := next.Standing != k.Standing || next.Cluster != k.Cluster || next.Forsaken != k.Forsaken ||
			!slices.Equal(next.Abandoned, k.Abandoned)
		if changed {
			k.covenant = next
			if err := c.keep(k); err != nil {
				return false, err
			}
			c.log.Info().Str(logkey.Cluster, next.Cluster).Str("proposer", next.Proposer).
				Msg([]string{"pledge released", "pledged to a cluster", "cluster joined"}[next.Standing])
			c.learnFounders(next.Founders)
		}
		c.mu.Lock()
		c.mu.waits = waits
		c.mu.Unlock()
		if next.Standing == wire.StandingFounded {
			return true, nil
		}
		if waits != waited {
			c.log.Info().Str(logkey.Reason, "waiting for "+waits).Msg("cluster awaited")
		}
		if !changed {
			return false, nil
		}
	}
}

// keep writes k down, then makes it known.
func (c *cluster) keep(k kept) error {
	if err := c.dir.writeCovenant(k); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.kept = k
	return nil
}

// greet asks those whom a server that was in the cluster before knows, before
// it takes part again: whether its raft id is its own, and its data are the
// newest. If they are not, it goes on as a new server.
func (c *cluster) greet(ctx context.Context) error {
	for began := time.Now(); ; {
		_, err := c.introduce(ctx, c.addresses())
		if errors.Is(err, errOldCopy) {
			return c.renew(err)
		}
		if !errors.Is(err, errTwice) || time.Since(began) > twiceTimeout {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(introduceEvery):
		}
	}
}

// renew puts the data aside and makes this a new server of the same cluster.
func (c *cluster) renew(why error) error {
	k, err := c.dir.setAside(c.stands(), c.log, why)
	if err != nil {
		return err
	}
	id, err := c.dir.raftID()
	if err != nil {
		return err
	}
	self := *c.me()
	self.RaftID, self.LastIndex = id, 0
	c.who.Store(&self)
	return c.keep(k)
}

// leader is Server.leader for one of several.
func (c *cluster) leader() (addr string, self, ok bool) {
	c.mu.Lock()
	r := c.mu.raft
	c.mu.Unlock()
	if r == nil {
		return "", false, false
	}
	_, id := r.LeaderWithID()
	if id == raft.ServerID(c.me().RaftID) {
		return c.me().RPCAddress, true, true
	}
	e, ok := c.book.find(string(id))
	return e.RPC, false, ok && e.RPC != ""
}

// servers returns the RPC addresses of all servers that are alive or in raft,
// sorted, this one among them.
func (c *cluster) servers() []string {
	all := []string{c.me().RPCAddress}
	c.mu.Lock()
	r := c.mu.raft
	c.mu.Unlock()
	var voting []raft.Server
	if r != nil {
		if f := r.GetConfiguration(); f.Error() == nil {
			voting = f.Configuration().Servers
		}
	}
	entries, _ := c.book.all()
	for _, e := range entries {
		inRaft := slices.ContainsFunc(voting, func(s raft.Server) bool { return string(s.ID) == e.RaftID })
		if e.RPC != "" && (e.alive || inRaft) {
			all = append(all, e.RPC)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// leaderMoved wakes those who wait for a leader.
func (c *cluster) leaderMoved() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.mu.changed)
	c.mu.changed = make(chan struct{})
}

// leaderChanged is Server.leaderChanged for one of several.
func (c *cluster) leaderChanged() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.changed
}

// waiting says for what the cluster waits before it exists, "" if it does.
func (c *cluster) waiting() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.waits
}

// close releases what newCluster took.
func (c *cluster) close() error {
	err := c.listener.Close()
	if err != nil && strings.Contains(err.Error(), net.ErrClosed.Error()) {
		return nil // raft's transport closed it
	}
	return err
}

// acked is up to where this server, while it leads or since it led, knows
// another's log to go. Every server asks for its own every two seconds.
func (c *cluster) acked(id string) uint64 {
	c.mu.Lock()
	r := c.mu.raft
	c.mu.Unlock()
	if r == nil {
		return 0
	}
	var term uint64
	if r.State() == raft.Leader {
		term = r.CurrentTerm()
	}
	return c.peers.promised(raft.ServerID(id), term, r.CommitIndex())
}

// openLedger returns the ledger, once it is open.
func (c *cluster) openLedger() *ledger {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.ledger
}

// retired says whether a server was taken out of the cluster, as far as this one
// knows.
func (c *cluster) retired(id string) bool {
	l := c.openLedger()
	return l != nil && l.state.retired(id)
}
