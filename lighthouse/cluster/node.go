package cluster

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/hashicorp/raft"

	"github.com/skerry-ft/skerry/internal/monitor"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/lighthouse/cluster/internal/datadir"
)

// Node is one server's part in its cluster, which may be of this server alone: it
// finds the others, founds the cluster with them or joins it, knows which servers
// there are and which one leads, and replicates the ledger. Its methods are safe
// for concurrent use, except that Run is called once, and Close when Run has
// returned.
type Node struct {
	cfg      Config
	several  bool         // there are other servers, or may be
	dir      *datadir.Dir // nil: in memory
	listener net.Listener // raft's; nil for a server alone
	book     *directory
	who      atomic.Pointer[wire.Server] // this server; its ClusterRecord is in mu

	peers  *raftPeers             // set by open
	gossip *memberlist.Memberlist // set by open

	keyring *memberlist.Keyring // gossip's, set by open; nil: gossip is in the clear; watch's

	mu struct {
		monitor.Monitor // that the leader, or what is known of it, has changed

		saved    datadir.Record       // as written to the data dir
		heard    map[string]lastHeard // by raft id
		known    map[string]bool      // RPC addresses of others, as far as any server named them
		news     chan struct{}        // capacity 1: heard has changed
		waits    string               // for what; "" when founded
		gossipAt string               // gossip's address, once it is open
		ledger   *Ledger              // once it is open
		leads    time.Time            // since when this server leads, as far as tend has seen
		next     string               // the membership change that comes next, or why there is none
	}
}

// Open locks the data dir, reads what it keeps, and listens for raft if this is one
// of several servers. It starts nothing: call Run, and then Close. A port that is
// taken and a data dir in use are errors that say so in one line. cfg has passed
// Options.Validate and RaftOptions.Validate.
func Open(cfg Config) (*Node, error) {
	n := &Node{cfg: cfg, several: cfg.Several(), book: newDirectory()}
	n.who.Store(&wire.Server{RPCAddress: cfg.ownAddress()})
	var err error
	if cfg.DataDir != "" {
		if n.dir, err = datadir.Open(cfg.DataDir, cfg.Log); err != nil {
			return nil, err
		}
	}
	if n.several {
		err = n.openMember()
	}
	if err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// openMember is Open's part for one of several servers.
func (n *Node) openMember() error {
	cfg := &n.cfg
	k, err := n.dir.OpenRecord(cfg.Log)
	if err != nil {
		return err
	}
	id, err := n.dir.RaftID()
	if err != nil {
		return err
	}
	index, err := n.dir.LastIndex()
	if err != nil {
		return err
	}
	host, err := cfg.advertisedHost()
	if err != nil {
		return err
	}
	if n.listener, err = cfg.Network.Listen(cfg.RaftAddress); err != nil {
		return fmt.Errorf("listen for raft: %w", err)
	}
	if k.Boot = max(k.Boot+1, uint64(time.Now().UnixNano())); cfg.Voters > 0 {
		k.Voters = cfg.Voters
	}
	if err := n.dir.WriteRecord(k); err != nil {
		return err
	}
	self := wire.Server{
		RaftID: id, Boot: k.Boot, Version: cfg.Version, Expect: cfg.Expect, LastIndex: index, NonVoter: cfg.NonVoter,
		RPCAddress:  cfg.Advertise,
		RaftAddress: net.JoinHostPort(host, portOf(n.listener.Addr())),
	}
	if self.RPCAddress == "" {
		self.RPCAddress = net.JoinHostPort(host, portOf(cfg.Addr))
	}
	n.who.Store(&self)
	n.mu.saved = k
	n.mu.heard = make(map[string]lastHeard)
	n.mu.known = make(map[string]bool)
	n.mu.news = make(chan struct{}, 1)
	for _, a := range slices.Concat(cfg.Join, k.Known) {
		n.mu.known[a] = true
	}
	n.learnFounders(k.Founders)
	return nil
}

// me is this server. Its raft id changes if its data turn out to be of no use.
func (n *Node) me() *wire.Server { return n.who.Load() }

// present is what this server says of itself now.
func (n *Node) present() wire.Server {
	n.mu.Lock()
	s, l := n.presentLocked(), n.mu.ledger
	n.mu.Unlock()
	if l != nil {
		_, leader := l.raft.LeaderWithID()
		s.LastIndex, s.Working = l.raft.LastIndex(), leader != ""
	}
	return s
}

func (n *Node) presentLocked() wire.Server {
	s, k := *n.me(), n.mu.saved
	s.Standing, s.Cluster, s.Proposer, s.Founders = k.Standing, k.Cluster, k.Proposer, k.Founders
	s.Voters, s.Abandoned, s.ProposerLost, s.GossipAddress = k.Voters, k.Abandoned, k.ProposerLost, n.mu.gossipAt
	return s
}

// learnFounders notes where the founders were.
func (n *Node) learnFounders(all []wire.Founder) {
	for _, f := range all {
		if f.RaftID != n.me().RaftID {
			n.book.learn(gossipNode{RaftID: f.RaftID, RPC: f.RPCAddress, Raft: f.RaftAddress})
			n.mu.Lock()
			n.mu.known[f.RPCAddress] = true
			n.mu.Unlock()
		}
	}
}

// Leader returns the RPC address of the server that leads, and whether it is this
// one. It is not ok while no leader is known.
func (n *Node) Leader() (addr string, self, ok bool) {
	l := n.Ledger()
	if l == nil {
		return "", false, false
	}
	_, id := l.raft.LeaderWithID()
	if id == raft.ServerID(n.me().RaftID) {
		return n.me().RPCAddress, true, true
	}
	e, ok := n.book.find(string(id))
	return e.RPC, false, ok && e.RPC != ""
}

// Servers returns the RPC addresses of all servers that are alive or in raft,
// sorted, this one among them if clients can dial it.
func (n *Node) Servers() []string {
	var all []string
	if own := n.me().RPCAddress; own != "" {
		all = append(all, own)
	}
	var voting []raft.Server
	if l := n.Ledger(); l != nil && n.several {
		if f := l.raft.GetConfiguration(); f.Error() == nil {
			voting = f.Configuration().Servers
		}
	}
	entries, _ := n.book.all()
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
func (n *Node) leaderMoved() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.Broadcast()
}

// Address is the RPC address by which clients and other servers find this one, "" if
// there is none that can be told.
func (n *Node) Address() string { return n.me().RPCAddress }

// Changed returns a channel that is closed when the answer of Leader may have
// changed. Take it before asking.
func (n *Node) Changed() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.mu.Changed()
}

// Waiting says for what this server waits before its cluster exists, "" if it does.
func (n *Node) Waiting() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.mu.waits
}

// Close ends gossip and raft and releases what Open took. It waits for raft's
// writes under way, and gives up on a disk that hangs after RaftOptions.DiskTimeout.
func (n *Node) Close() error {
	err := n.leaveGossip()
	if l := n.Ledger(); l != nil {
		err = errors.Join(err, l.close())
	}
	if n.listener != nil {
		if e := n.listener.Close(); e != nil && !strings.Contains(e.Error(), net.ErrClosed.Error()) {
			err = errors.Join(err, e) // else raft's transport closed it
		}
	}
	if n.dir != nil {
		err = errors.Join(err, n.dir.Close())
	}
	return err
}

// acked is up to where this server, while it leads or since it led, knows
// another's log to go. Every server asks for its own every two seconds.
func (n *Node) acked(id string) uint64 {
	l := n.Ledger()
	if l == nil {
		return 0
	}
	var term uint64
	if l.leads() {
		term = l.raft.CurrentTerm()
	}
	return n.peers.promised(raft.ServerID(id), term, l.raft.CommitIndex())
}

// Ledger returns the ledger, nil before it is open: while the cluster is not
// found, and before Run.
func (n *Node) Ledger() *Ledger {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.mu.ledger
}

// retired says whether a server was taken out of the cluster, as far as this one
// knows.
func (n *Node) retired(id string) bool {
	l := n.Ledger()
	return l != nil && l.state.retired(id)
}
