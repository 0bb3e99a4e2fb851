package place

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"

	"github.com/skerry-ft/skerry/internal/problems"
)

// Bounds of a place.
const (
	// MaxWorldSize bounds the processes of a job, and the hosts of a list.
	MaxWorldSize = 1 << 20
	// MaxTextBytes bounds a variable, and a file that a launcher names.
	MaxTextBytes = 1 << 20
	// maxHostBytes is the longest name of a host in the DNS.
	maxHostBytes = 253
)

// DefaultPort is torch's, where neither MASTER_PORT nor the launcher says one.
const DefaultPort = 29500

// ErrNotLaunched is returned by FromEnv and Find if no launcher has started this process:
// the caller may go on alone.
var ErrNotLaunched = errors.New("place: no launcher has started this process")

// Place is where a process stands in its job. It is a value; changing it is the caller's
// way to correct a launcher.
type Place struct {
	Launcher string // its name
	Job      string // its id of the job; "" if it has none
	Restart  int    // how often the job was started again by the launcher

	WorldSize int // processes of the job, 1 or more
	Rank      int // 0 to WorldSize-1

	LocalRank int // index among the job's processes of this host
	LocalSize int // how many these are; 0: the launcher does not say

	NodeRank int // index of this host among those of the job
	Nodes    int // how many these are; 0: the launcher does not say

	MasterAddr string // a name or address at which all reach the host of rank 0
	MasterPort int    // a port that is free there, or at which AgentStore listens

	// AgentStore says that the launcher serves the store at MasterAddr and MasterPort
	// itself, as torchrun's agent may.
	AgentStore bool
}

// Master is MasterAddr and MasterPort as "host:port".
func (p Place) Master() string { return net.JoinHostPort(p.MasterAddr, strconv.Itoa(p.MasterPort)) }

// GroupStore is manager.Config.GroupStore: Master, with a prefix for each start, since a store
// may outlive the processes. Without AgentStore rank 0 serves it, see Usage.
func (p Place) GroupStore() string { return p.Master() + "/attempt_" + strconv.Itoa(p.Restart) }

// Method is dist.InitConfig.Method: how all processes of the job meet, with rank and size.
func (p Place) Method() string {
	place := url.Values{"rank": {strconv.Itoa(p.Rank)}, "world_size": {strconv.Itoa(p.WorldSize)}}.Encode()
	if p.AgentStore {
		return "env://?" + place
	}
	u := url.URL{Scheme: "tcp", Host: p.Master(), RawQuery: place}
	return u.String()
}

// Validate returns all problems, joined, each as "Field = value, want bound".
func (p Place) Validate() error {
	var bad problems.List
	problems.Within(&bad, "WorldSize", p.WorldSize, 1, MaxWorldSize)
	bad.Want(0 <= p.Rank && p.Rank < max(p.WorldSize, 1), "Rank", p.Rank, "0 to WorldSize-1, %d", p.WorldSize-1)
	for _, part := range []struct {
		index, size         int
		indexName, sizeName string
	}{
		{p.LocalRank, p.LocalSize, "LocalRank", "LocalSize"}, {p.NodeRank, p.Nodes, "NodeRank", "Nodes"},
	} {
		problems.Within(&bad, part.sizeName, part.size, 0, max(p.WorldSize, 0))
		most := part.size
		if most == 0 {
			most = p.WorldSize
		}
		bad.Want(0 <= part.index && part.index < max(most, 1), part.indexName, part.index, "0 to %d", most-1)
	}
	problems.NotNegative(&bad, "Restart", p.Restart)
	bad.Short("Job", len(p.Job), maxHostBytes)
	bad.Want(goodHost(p.MasterAddr), "MasterAddr", p.MasterAddr, "the name or address of a host")
	problems.Within(&bad, "MasterPort", p.MasterPort, 1, 65535)
	return bad.Err()
}

// goodHost tells whether a name can be dialled, as far as its spelling goes.
func goodHost(name string) bool {
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	for _, c := range []byte(name) {
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (c < '0' || c > '9') && c != '-' && c != '.' && c != '_' {
			return false
		}
	}
	return name != "" && len(name) <= maxHostBytes
}

// check is Validate with the launcher's name.
func (p Place) check() (Place, error) {
	if err := p.Validate(); err != nil {
		return Place{}, fmt.Errorf("place as %s says: %w", p.Launcher, err)
	}
	return p, nil
}
