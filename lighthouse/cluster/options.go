package cluster

import (
	"cmp"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/skerry-ft/skerry/internal/problems"
	"github.com/skerry-ft/skerry/internal/wire"
)

// How far raft's and gossip's ports lie from that for RPC, unless they are
// given.
const (
	raftPortOffset   = 1
	gossipPortOffset = 2
)

// DefaultStableFor is how long a server must be level before it becomes a
// voter, if Cluster.StableFor is 0.
const DefaultStableFor = 2 * time.Second

// DefaultReplaceAfter is how long a voter must be gone before another server
// takes its place, if Cluster.ReplaceAfter is 0.
const DefaultReplaceAfter = 30 * time.Second

// Options make a server one of several. Its zero value is a server
// alone; with Expect or Join set it is one of several, and needs a DataDir.
type Options struct {
	// Expect is how many servers found the cluster together: 1, 3 or 5. All of
	// them must be there once; from then on it is ignored. 0 founds nothing: the
	// server waits to be taken into a cluster that exists.
	Expect int

	// Join names other servers by their RPC addresses, host:port; one that
	// answers is enough. A server that is in a cluster already needs none.
	Join []string

	// RaftAddress and GossipAddress are where raft and gossip (TCP and UDP)
	// listen, host:port. Empty is Listen's host with its port plus one and
	// plus two; where Listen's port is 0, free ones.
	RaftAddress, GossipAddress string

	// Voters is how many voters the cluster shall have: 1, 3 or 5. Servers
	// beyond it are spares that take a dead voter's place. 0 is Expect, or,
	// for a server that joins, what the others say. It may be raised later:
	// what the present leader's says counts.
	Voters int

	// NonVoter makes this a server that forwards and never votes.
	NonVoter bool

	// StableFor is how long a server must have been alive and level with the
	// leader before it becomes a voter. 0 means DefaultStableFor. Too low, and
	// a server that comes and goes becomes a voter.
	StableFor time.Duration

	// ReplaceAfter is how long a voter must be gone before a spare takes its
	// place. A voter whose address now has another server is replaced without
	// waiting. 0 means DefaultReplaceAfter. Too low, and a restart costs a
	// change of voters; too high, and a second death meets too few.
	ReplaceAfter time.Duration

	// GossipKeys are the keys that encrypt and authenticate gossip, of 16, 24 or 32
	// bytes each, one of them on all servers: the first is used, all are accepted.
	// It is asked again and again, so that keys are changed while servers run. nil
	// leaves gossip in the clear.
	GossipKeys func() [][]byte
}

// Several says whether o describes one of several servers.
func (o Options) Several() bool { return o.Expect > 0 || len(o.Join) > 0 }

// WithDefaults returns o with its zeros that mean a default filled in, for
// a server that listens for RPC at that address.
func (o Options) WithDefaults(listen string) Options {
	if o.RaftAddress == "" {
		o.RaftAddress = besides(listen, raftPortOffset)
	}
	if o.GossipAddress == "" {
		o.GossipAddress = besides(listen, gossipPortOffset)
	}
	o.StableFor = cmp.Or(o.StableFor, DefaultStableFor)
	o.ReplaceAfter = cmp.Or(o.ReplaceAfter, DefaultReplaceAfter)
	o.Voters = cmp.Or(o.Voters, o.Expect)
	return o
}

// besides is an address with its port moved; port 0 stays 0. What cannot be
// parsed is Validate's to refuse.
func besides(address string, offset int) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	n, err := strconv.Atoi(port)
	if err != nil || n == 0 {
		return net.JoinHostPort(host, port)
	}
	return net.JoinHostPort(host, strconv.Itoa(n+offset))
}

// Validate returns what is wrong with o for a server with that data dir, field by
// field; nothing with the zero value.
func (o Options) Validate(dataDir string) error {
	if !o.Several() {
		return nil
	}
	var l problems.List
	want := l.Want
	odd := []int{0, 1, 3, wire.MaxVoters}
	founds := slices.Contains(odd, o.Expect)
	want(founds, "Cluster.Expect", o.Expect, "1, 3 or 5; 0 for a server that joins")
	// What follows from a wrong number of founders is no problem of its own.
	want(!founds || dataDir != "", "DataDir", "", "a folder: one of several servers must keep what it promised")
	want(!founds && o.Voters == o.Expect || slices.Contains(odd, o.Voters), "Cluster.Voters", o.Voters, "1, 3 or 5")
	want(len(o.Join) <= wire.MaxKnown, "number of Cluster.Join", len(o.Join), "at most %d", wire.MaxKnown)
	want(!o.NonVoter || o.Expect == 0, "Cluster.Expect", o.Expect, "0, because founders vote and NonVoter is set")
	for _, a := range o.Join {
		want(dialable(a), "Cluster.Join", a, "host:port of at most %d bytes", wire.MaxServerAddressBytes)
	}
	for field, a := range map[string]string{"Cluster.RaftAddress": o.RaftAddress, "Cluster.GossipAddress": o.GossipAddress} {
		_, _, err := net.SplitHostPort(a)
		want(err == nil, field, a, "host:port")
	}
	if o.GossipKeys != nil {
		keys := o.GossipKeys()
		want(len(keys) > 0, "number of Cluster.GossipKeys", len(keys), "1 at least")
		for _, k := range keys {
			want(slices.Contains([]int{16, 24, 32}, len(k)), "length of one of Cluster.GossipKeys", len(k), "16, 24 or 32")
		}
	}
	want(o.StableFor > 0, "Cluster.StableFor", o.StableFor, "above 0")
	want(o.ReplaceAfter > 0, "Cluster.ReplaceAfter", o.ReplaceAfter, "above 0")
	return l.Err()
}

// dialable says whether an address has a host and a port, and is no longer than it may be.
func dialable(address string) bool {
	host, port, err := net.SplitHostPort(address)
	n, notPort := strconv.ParseUint(port, 10, 16)
	return err == nil && notPort == nil && n > 0 && host != "" && len(address) <= wire.MaxServerAddressBytes
}
