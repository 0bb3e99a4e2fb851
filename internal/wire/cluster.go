package wire

import (
	"github.com/skerry-ft/skerry/internal/printable"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
)

// What a lighthouse server may say of itself and of others, at most.
const (
	// MaxServerIDBytes bounds a raft id: a UUID.
	MaxServerIDBytes = 64

	// MaxServerAddressBytes bounds an address of a server: a DNS name and a port.
	// Four of them fit into what gossip carries of a node.
	MaxServerAddressBytes = 96

	// MaxVersionBytes bounds a program's version.
	MaxVersionBytes = 64

	// MaxVoters bounds the voters of a cluster.
	MaxVoters = 5

	// MaxAbandoned bounds the clusters that a server remembers to have given up.
	MaxAbandoned = 16

	// MaxKnown bounds the servers that one names to another.
	MaxKnown = 64
)

// Standing says how a server stands to a cluster.
type Standing int

// The standings, in the order in which a server passes through them.
const (
	StandingNew     Standing = iota // belongs to no cluster
	StandingPledged                 // to one that may never be founded
	StandingFounded                 // belongs to a cluster that exists
)

// Founder is a server that must pledge before its cluster is founded.
type Founder struct {
	RaftID      string `json:"raft_id"`
	RaftAddress string `json:"raft_address"`
	RPCAddress  string `json:"rpc_address"`
}

// Server is what a lighthouse server says of itself.
type Server struct {
	RaftID        string
	RPCAddress    string
	RaftAddress   string
	GossipAddress string
	Version       string
	Boot          uint64 // drawn anew by each process
	Standing      Standing
	Cluster       string // "" when new
	Proposer      string // raft id of who proposed the cluster
	Founders      []Founder
	Voters        int // how many voters the cluster shall have; 0: unknown
	NonVoter      bool
	LastIndex     uint64   // of its log
	Expect        int      // of how many founders it wants to be one; 0: of none
	Abandoned     []string // clusters that it will never found, nor belong to
	ProposerLost  bool     // it pledged, and its proposer lost its data
	Working       bool     // its cluster has had a leader
}

// Introduction is what two servers tell each other.
type Introduction struct {
	Self      Server
	Known     []string // RPC addresses
	YourIndex uint64   // up to where the asked one knows the asker's log to have gone
	Retired   bool     // the asker was taken out of the cluster
}

// ServerToProto converts a server.
func ServerToProto(s Server) *skerrypb.ServerInfo {
	p := &skerrypb.ServerInfo{
		RaftId: s.RaftID, RpcAddress: s.RPCAddress, RaftAddress: s.RaftAddress, GossipAddress: s.GossipAddress,
		Version: printable.Cut(s.Version, MaxVersionBytes), Boot: s.Boot, Standing: skerrypb.Standing(s.Standing),
		Cluster: s.Cluster, Proposer: s.Proposer, Voters: uint32(s.Voters), NonVoter: s.NonVoter,
		LastIndex: s.LastIndex, Expect: uint32(s.Expect), Abandoned: s.Abandoned, ProposerLost: s.ProposerLost, Working: s.Working,
	}
	p.Founders = listToProto(s.Founders, func(f Founder) *skerrypb.Founder {
		return &skerrypb.Founder{RaftId: f.RaftID, RaftAddress: f.RaftAddress, RpcAddress: f.RPCAddress}
	})
	return p
}

// ServerFromProto checks and converts a server.
func ServerFromProto(p *skerrypb.ServerInfo) (Server, error) {
	return whole("server", p, (*check).server)
}

func (c *check) server(field string, p *skerrypb.ServerInfo) Server {
	if p == nil {
		c.missing(field)
		return Server{}
	}
	c.enter(field)
	defer c.leave()
	return Server{
		RaftID:        c.named("raft_id", p.GetRaftId(), MaxServerIDBytes),
		RPCAddress:    c.named("rpc_address", p.GetRpcAddress(), MaxServerAddressBytes),
		RaftAddress:   c.named("raft_address", p.GetRaftAddress(), MaxServerAddressBytes),
		GossipAddress: c.text("gossip_address", p.GetGossipAddress(), MaxServerAddressBytes),
		Version:       c.text("version", p.GetVersion(), MaxVersionBytes),
		Boot:          p.GetBoot(),
		Standing:      Standing(c.number("standing", int64(p.GetStanding()), 0, int64(StandingFounded))),
		Cluster:       c.text("cluster", p.GetCluster(), MaxClusterBytes),
		Proposer:      c.text("proposer", p.GetProposer(), MaxServerIDBytes),
		Voters:        int(c.number("voters", int64(p.GetVoters()), 0, MaxVoters)),
		NonVoter:      p.GetNonVoter(),
		LastIndex:     p.GetLastIndex(),
		Expect:        int(c.number("expect", int64(p.GetExpect()), 0, MaxVoters)),
		Abandoned:     c.texts("abandoned", p.GetAbandoned(), MaxAbandoned, MaxClusterBytes),
		ProposerLost:  p.GetProposerLost(),
		Working:       p.GetWorking(),
		Founders:      list(c, "founders", p.GetFounders(), MaxVoters, c.founder),
	}
}

func (c *check) founder(f *skerrypb.Founder) Founder {
	return Founder{
		RaftID:      c.named("raft_id", f.GetRaftId(), MaxServerIDBytes),
		RaftAddress: c.named("raft_address", f.GetRaftAddress(), MaxServerAddressBytes),
		RPCAddress:  c.named("rpc_address", f.GetRpcAddress(), MaxServerAddressBytes),
	}
}

// named checks a text that must be there.
func (c *check) named(field, s string, limit int) string {
	if s == "" {
		c.bad(field, s, "1 to %d bytes", limit)
	}
	return c.text(field, s, limit)
}

// addresses checks a list of servers' addresses.
func (c *check) addresses(field string, all []string) []string {
	return list(c, field, all, MaxKnown, func(a string) string { return c.named("address", a, MaxServerAddressBytes) })
}

// IntroduceFromProto checks and converts what a server that asks says.
func IntroduceFromProto(p *skerrypb.IntroduceRequest) (Introduction, error) {
	c := new(check)
	i := Introduction{Self: c.server("self", p.GetSelf()), Known: c.addresses("known", p.GetKnown())}
	return i, c.result()
}

// IntroducedFromProto checks and converts what a server that was asked says.
func IntroducedFromProto(p *skerrypb.IntroduceResponse) (Introduction, error) {
	c := new(check)
	i := Introduction{
		Self: c.server("self", p.GetSelf()), Known: c.addresses("known", p.GetKnown()), YourIndex: p.GetYourIndex(), Retired: p.GetRetired()}
	return i, c.result()
}

// CheckServerName checks the raft id or RPC address by which somebody names a
// server.
func CheckServerName(field, s string) (string, error) {
	c := new(check)
	s = c.text(field, s, MaxServerAddressBytes)
	return s, c.result()
}
