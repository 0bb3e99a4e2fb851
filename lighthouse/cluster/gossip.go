package cluster

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/lighthouse/internal/network"
)

// How gossip watches servers. There are a handful, so each is probed often: a
// dead one is known after probeEvery + probeTimeout + suspicion × probeEvery,
// some 0.8 s.
const (
	probeEvery    = 200 * time.Millisecond
	probeTimeout  = 100 * time.Millisecond
	suspicion     = 3
	gossipEvery   = 50 * time.Millisecond
	pushPullEvery = 5 * time.Second
	gossipTimeout = 2 * time.Second

	// goodbyeTimeout is how long it may take to tell others that we stop.
	goodbyeTimeout = 300 * time.Millisecond
)

// gossipNode is what gossip carries of a server, at most
// memberlist.MetaMaxSize bytes.
type gossipNode struct {
	Cluster  string `json:"c"`
	RaftID   string `json:"i"`
	Boot     uint64 `json:"b"`
	RPC      string `json:"r"`
	Raft     string `json:"f"`
	Version  string `json:"v"`
	NonVoter bool   `json:"n,omitempty"`
	Deltas   bool   `json:"d,omitempty"` // reads entries that say what changed: see ledger.deltasRead
}

// openGossip starts gossip for a server of a cluster that exists. Each process
// is a node of its own, named by raft id and boot: a server that comes back is
// not held up by what is believed of the process before.
func openGossip(cfg Options, n network.Network, adopt guard.Adoption, self wire.Server, book *directory, out zerolog.Logger) (*memberlist.Memberlist, *memberlist.Keyring, error) {
	meta, err := json.Marshal(gossipNode{
		Cluster: self.Cluster, RaftID: self.RaftID, Boot: self.Boot, RPC: self.RPCAddress, Raft: self.RaftAddress,
		Version: self.Version, NonVoter: self.NonVoter, Deltas: true})
	if err == nil && len(meta) > memberlist.MetaMaxSize {
		err = fmt.Errorf("its %d bytes are over %d: shorten the addresses", len(meta), memberlist.MetaMaxSize)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("describe this server to gossip: %w", err)
	}
	listen, err := resolve(cfg.GossipAddress)
	if err != nil {
		return nil, nil, err
	}
	own, err := resolve(self.RPCAddress)
	if err != nil {
		return nil, nil, err
	}
	if listen.IP == nil { // every interface, of the family that others are told
		listen.IP = net.IPv4zero
		if own.IP.To4() == nil {
			listen.IP = net.IPv6unspecified
		}
	}
	told := &gossipDelegate{cluster: self.Cluster, meta: meta, book: book}
	c := memberlist.DefaultLANConfig()
	c.Name = nodeName(self)
	c.Label = "skerry/" + self.Cluster // a foreign cluster's packets are dropped unread
	if cfg.GossipKeys != nil {
		keys := cfg.GossipKeys()
		if c.Keyring, err = memberlist.NewKeyring(keys, keys[0]); err != nil {
			return nil, nil, fmt.Errorf("take the gossip keys: %w", err)
		}
		c.GossipVerifyIncoming = !adopt.Lenient()
		c.GossipVerifyOutgoing = adopt != guard.AdoptListen
	}
	c.TCPTimeout = gossipTimeout
	c.ProbeInterval, c.ProbeTimeout, c.SuspicionMult = probeEvery, probeTimeout, suspicion
	c.GossipInterval, c.PushPullInterval = gossipEvery, pushPullEvery
	c.Delegate, c.Events, c.Alive, c.Merge = told, told, told, told
	c.Logger = log.New(gossipLog{out}, "", 0)
	c.EnableCompression = false // what is announced would not be seen before it is unpacked
	transport, err := newGossipTransport(n, listen.String(), c.Keyring == nil || adopt.Lenient(), func(from net.Addr, why error) {
		out.Warn().Err(why).Stringer(logkey.Peer, from).Msg("stream of gossip refused")
	})
	if err != nil {
		return nil, nil, fmt.Errorf("listen for gossip on %s: %w", cfg.GossipAddress, err)
	}
	c.Transport = transport
	c.AdvertiseAddr, c.AdvertisePort = own.IP.String(), transport.listener.Addr().(*net.TCPAddr).Port
	m, err := memberlist.Create(c)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("open gossip on %s: %w", cfg.GossipAddress, err), transport.Shutdown())
	}
	return m, c.Keyring, nil
}

// rekey makes the keyring that of the keys as they are now.
func rekey(ring *memberlist.Keyring, keys [][]byte) error {
	had := slices.Clone(ring.GetKeys())
	if slices.EqualFunc(had, keys, bytes.Equal) {
		return nil
	}
	for _, k := range keys {
		if err := ring.AddKey(k); err != nil { // one that it has is none
			return fmt.Errorf("add a gossip key: %w", err)
		}
	}
	if err := ring.UseKey(keys[0]); err != nil {
		return fmt.Errorf("use a gossip key: %w", err)
	}
	for _, old := range had {
		// memberlist 0.7.0 removes a key from a list that readers of messages look
		// at without its lock: at worst they drop a message, and the race detector
		// ends the test. So a build for it keeps old keys.
		if raceDetector || slices.ContainsFunc(keys, func(k []byte) bool { return bytes.Equal(k, old) }) {
			continue
		}
		if err := ring.RemoveKey(old); err != nil {
			return fmt.Errorf("remove a gossip key: %w", err)
		}
	}
	return nil
}

// nodeName is a process's name in gossip.
func nodeName(s wire.Server) string { return s.RaftID + "." + strconv.FormatUint(s.Boot, 36) }

// resolve is host:port with the host's IP address, because gossip names no hosts; nil for
// no host, which is all interfaces.
func resolve(address string) (*net.TCPAddr, error) {
	at, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("find the address of %s: %w", address, err)
	}
	return at, nil
}

// gossipDelegate is what gossip asks and tells. It holds no state of its own;
// the directory has a lock that calls nobody.
type gossipDelegate struct {
	cluster string
	meta    []byte
	book    *directory
}

var errForeign = errors.New("it is of another cluster")

// node reads what gossip carries of a server.
func (d *gossipDelegate) node(n *memberlist.Node) (gossipNode, error) {
	var g gossipNode
	if err := json.Unmarshal(n.Meta, &g); err != nil {
		return g, fmt.Errorf("read what gossip says of %s: %w", n.Name, err)
	}
	if g.Cluster != d.cluster {
		return g, fmt.Errorf("refuse %s: %w: %q", n.Name, errForeign, g.Cluster)
	}
	s := wire.ServerToProto(wire.Server{RaftID: g.RaftID, RPCAddress: g.RPC, RaftAddress: g.Raft, Version: g.Version})
	if _, err := wire.ServerFromProto(s); err != nil {
		return g, fmt.Errorf("read what gossip says of %s: %w", n.Name, err)
	}
	return g, nil
}

// NotifyAlive refuses nodes of other clusters.
func (d *gossipDelegate) NotifyAlive(n *memberlist.Node) error {
	_, err := d.node(n)
	return err
}

// NotifyMerge refuses to merge with a pool in which there are others.
func (d *gossipDelegate) NotifyMerge(all []*memberlist.Node) error {
	if len(all) > wire.MaxServers {
		return fmt.Errorf("refuse a pool of %d servers, want at most %d", len(all), wire.MaxServers)
	}
	for _, n := range all {
		if _, err := d.node(n); err != nil && errors.Is(err, errForeign) {
			return err
		}
	}
	return nil
}

// NotifyJoin implements memberlist.EventDelegate.
func (d *gossipDelegate) NotifyJoin(n *memberlist.Node) {
	if g, err := d.node(n); err == nil {
		d.book.alive(g, n.Address())
	}
}

// NotifyUpdate implements memberlist.EventDelegate.
func (d *gossipDelegate) NotifyUpdate(n *memberlist.Node) { d.NotifyJoin(n) }

// NotifyLeave implements memberlist.EventDelegate.
func (d *gossipDelegate) NotifyLeave(n *memberlist.Node) {
	if g, err := d.node(n); err == nil {
		d.book.gone(g)
	}
}

// NodeMeta implements memberlist.Delegate.
func (d *gossipDelegate) NodeMeta(int) []byte { return d.meta }

// NotifyMsg implements memberlist.Delegate; nobody sends any.
func (d *gossipDelegate) NotifyMsg([]byte) {}

// GetBroadcasts implements memberlist.Delegate.
func (d *gossipDelegate) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState implements memberlist.Delegate.
func (d *gossipDelegate) LocalState(bool) []byte { return nil }

// MergeRemoteState implements memberlist.Delegate.
func (d *gossipDelegate) MergeRemoteState([]byte, bool) {}

// gossipLog passes memberlist's lines on: its errors are warnings, because we
// recover; the rest is for debugging.
type gossipLog struct{ log zerolog.Logger }

// Write logs one line.
func (g gossipLog) Write(p []byte) (int, error) {
	line := string(bytes.TrimSpace(p))
	level := zerolog.DebugLevel
	if strings.HasPrefix(line, "[ERR]") {
		level = zerolog.WarnLevel
	}
	g.log.WithLevel(level).Str("source", "gossip").Msg(line)
	return len(p), nil
}
