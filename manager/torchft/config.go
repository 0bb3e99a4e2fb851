package torchft

import (
	"cmp"
	"net"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/skerry-ft/skerry/internal/netaddr"
	"github.com/skerry-ft/skerry/internal/problems"
	"github.com/skerry-ft/skerry/internal/wire"
)

const (
	// DefaultListen takes a free port on loopback.
	DefaultListen = "127.0.0.1:0"

	// DefaultBeatInterval is torchft's own.
	DefaultBeatInterval = 100 * time.Millisecond

	// quorumTimeout bounds a quorum call that names no deadline.
	quorumTimeout = time.Minute

	// tryTimeout bounds one server's silence at the beat, beatTimeout all servers'.
	tryTimeout  = time.Second
	beatTimeout = 5 * time.Second

	// tryPause is before a lighthouse is asked again.
	tryPause = 100 * time.Millisecond

	// beatsAlone is for how many beat intervals a manager beats on after its last
	// rank has gone: a rank that connects anew does it sooner.
	beatsAlone = 5
)

// Config tells a Server who it is.
type Config struct {
	// ReplicaID names this incarnation of the replica, "name:uuid". Required.
	ReplicaID string
	// Job is sent to the lighthouse as call metadata; "" sends nothing, and the
	// lighthouse takes the default job, or the one that ReplicaID begins with.
	Job string
	// Lighthouse has the addresses of lighthouse servers, "host:port" or URLs.
	Lighthouse []string
	// StoreAddress is "host:port" of the replica's own store.
	StoreAddress string
	// GroupWorldSize is how many ranks the replica has; 0 means 1.
	GroupWorldSize int

	// Listen is "host:port"; "" means DefaultListen. Advertise is the host that
	// peers dial; "" means Listen's, which must then not be a wildcard.
	Listen, Advertise string
	// Open lets other hosts reach the manager. torchft's ranks can show neither a
	// certificate nor a token, so whoever comes may vote for this replica or kill it.
	// Off, a Listen beyond loopback is refused.
	Open bool
	// BeatInterval is how often the lighthouse hears of the replica while a rank is
	// connected; 0 means DefaultBeatInterval. It must be well below the lighthouse's
	// heartbeat timeout for torchft's clients.
	BeatInterval time.Duration
	// OnKill is called when an operator kills this replica; it should end the
	// processes. nil: refused.
	OnKill func(reason string)
	// Dial replaces the options of connections to lighthouse servers, transport
	// credentials included; nil: plain TCP.
	Dial []grpc.DialOption
	// Credentials are those of the port that the ranks call; nil: plain TCP, all that
	// torchft's ranks speak.
	Credentials credentials.TransportCredentials

	Log zerolog.Logger
}

func (c Config) withDefaults() Config {
	c.GroupWorldSize = cmp.Or(c.GroupWorldSize, 1)
	c.Listen = cmp.Or(c.Listen, DefaultListen)
	c.BeatInterval = cmp.Or(c.BeatInterval, DefaultBeatInterval)
	if c.Credentials == nil {
		c.Credentials = insecure.NewCredentials()
	}
	return c
}

// Validate returns all problems, joined. Zero values stand for their defaults.
func (c Config) Validate() error {
	c = c.withDefaults()
	var l problems.List
	_, err := wire.CheckReplicaID(c.ReplicaID)
	l.About("ReplicaID", err)
	checkLighthouse(&l, c.Job, c.Lighthouse)
	problems.Within(&l, "bytes of StoreAddress", len(c.StoreAddress), 1, wire.MaxAddressBytes)
	problems.Within(&l, "GroupWorldSize", c.GroupWorldSize, 1, wire.MaxGroupWorldSize)
	netaddr.CheckAdvertised(&l, c.Listen, c.Advertise)
	problems.Within(&l, "BeatInterval", c.BeatInterval, time.Millisecond, wire.MaxTimeout)
	return l.Err()
}

// checkLighthouse tells l what is wrong with a job, which may be empty, and a list of
// servers.
func checkLighthouse(l *problems.List, job string, addrs []string) {
	_, err := wire.CheckJob(job)
	l.About("Job", err)
	problems.Within(l, "number of Lighthouse", len(addrs), 1, wire.MaxServers)
	for _, addr := range addrs {
		host, port, err := net.SplitHostPort(netaddr.HostPort(addr))
		l.Want(err == nil && host != "" && port != "", "Lighthouse", addr, "host:port")
	}
}
