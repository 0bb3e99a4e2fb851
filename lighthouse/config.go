package lighthouse

import (
	"cmp"
	"fmt"
	"net"
	"time"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/internal/problems"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/lighthouse/cluster"
	"github.com/skerry-ft/skerry/lighthouse/internal/network"
	"github.com/skerry-ft/skerry/quorum"
)

// The bounds of a configuration.
const (
	// DefaultPort is the port for RPC and HTTP.
	DefaultPort = 29510

	// DefaultMaxJobs is how many jobs one server serves, if MaxJobs is 0.
	DefaultMaxJobs = 1_000

	// DefaultMaxReplicasPerJob is how many replicas a job may have, if
	// MaxReplicasPerJob is 0.
	DefaultMaxReplicasPerJob = 4_096

	// DefaultBeatInterval is the beat interval while the sum of all beats
	// stays within 20,000 a second.
	DefaultBeatInterval = 100 * time.Millisecond

	// DefaultTorchftHeartbeatTimeout is the heartbeat timeout of jobs whose
	// members are torchft's clients.
	DefaultTorchftHeartbeatTimeout = 5 * time.Second

	// DefaultHelloTimeout is how long a connection may take to say what it is.
	DefaultHelloTimeout = 10 * time.Second

	// DefaultProbationAfter is how many short memberships in a row bring a replica
	// on probation, where an operator does not say otherwise. A Config has none by
	// itself: who embeds a server, above all a test, kills on purpose.
	DefaultProbationAfter = 5

	minTimeout = time.Millisecond
)

// Network makes a server's listeners and connections: those for clients, for raft and for gossip,
// and those to other servers and to managers.
type Network = network.Network

// CheckJob says what is wrong with the name of a job.
func CheckJob(name string) error {
	_, err := wire.CheckJob(name)
	return err
}

// Config is a server's configuration. DefaultConfig returns one that works.
type Config struct {
	// Listen is the address for RPC and HTTP alike, "host:port". An empty
	// host listens on all interfaces; port 0 takes a free one (see Addr). Where
	// other hosts reach it, Guard must have a token or certificates, or say Open.
	Listen string

	// Network makes the server's listeners and connections. nil is this machine's: RPC then
	// goes by way of a proxy, where the environment names one.
	Network Network

	// Advertise is the address, "host:port", by which clients find this server
	// again; it is told to every session. Empty advertises Listen's address if
	// it names a host, and else nothing: "all interfaces" is no address, and
	// the client knows one already. It cannot be another host's way to a Listen on
	// loopback: New refuses that.
	Advertise string

	// Rules are the rules of every job that has none of its own. Its
	// HeartbeatTimeout is for jobs whose members beat over sessions. Too low,
	// and a pause of the collector or of the network makes a replica dead; too
	// high, and every failure that no connection shows costs as long as this.
	Rules quorum.Config

	// TorchftHeartbeatTimeout is the heartbeat timeout of jobs whose members
	// are torchft's clients. They beat each 100 ms from a thread that stalls
	// with its process; they have no stream whose end would tell of a death
	// earlier.
	TorchftHeartbeatTimeout time.Duration

	// BeatInterval is how often a session beats. It grows by itself with the
	// number of sessions (all beats stay within 20,000 a second), and is never more than a fifth of
	// a job's SuspectAfter, so that four beats in a row may be missed. 0 means
	// DefaultBeatInterval. More beats find the dead no faster: SuspectAfter
	// says when silence counts; they only make that time safer.
	BeatInterval time.Duration

	// HelloTimeout is how long a new connection may take to show its protocol, an
	// HTTP request its header, and a session to say hello. What says nothing is
	// cut: it holds a descriptor. Too low, and clients on a slow network never
	// get in. 0 means DefaultHelloTimeout.
	HelloTimeout time.Duration

	// DataDir is the folder for the raft log, snapshots and ids; it is made if
	// it does not exist. One server at a time may use it. Empty keeps the
	// ledger in memory: a restart then is a new cluster, whose members form
	// their quorum anew, with a higher id.
	DataDir string

	// Cluster makes this server one of several. Its zero value is a server
	// alone.
	Cluster cluster.Options

	// Raft says how this server takes part in raft.
	Raft cluster.RaftOptions

	// Guard has the server's certificate and the token for changing actions. Its
	// zero value guards nothing, which is fine on loopback, and refused beyond it.
	Guard Guard

	// OpenJoins lets replicas join that do not prove the token, though there is one:
	// torchft's clients cannot. Whoever reaches the port may then join, put members
	// out in their names and, as a member, read the model.
	OpenJoins bool

	// Reflection serves gRPC's reflection, by which grpcurl and its like find out which
	// calls there are. What they may call is up to Guard as before.
	Reflection bool

	// AllowHosts are more names under which browsers may reach this server, beside
	// localhost, addresses, and what Listen and Advertise say. A request under
	// any other name may be another site's, and changes nothing.
	AllowHosts []string

	// MaxConns bounds the connections to the port at a time, and MaxConnsPerHost
	// those from one address, loopback exempt; one more is closed at once. 0 means
	// DefaultMaxConns and DefaultMaxConnsPerHost. Keep MaxConns below the limit of
	// open files, which otherwise does the same to whoever comes.
	MaxConns, MaxConnsPerHost int

	// MaxJobs bounds the jobs that clients may bring into being by naming
	// them. 0 means DefaultMaxJobs.
	MaxJobs int

	// MaxReplicasPerJob bounds the replicas of a job that join, beat or have a
	// session: whoever may join a job brings in no more. One more is told so, and tries
	// again. Spares count, and those who died until they are lost; the largest quorum is
	// Rules.MaxReplicas. 0 means DefaultMaxReplicasPerJob.
	MaxReplicasPerJob int

	// Version is what Info and the status page say of this program.
	Version string

	// Log receives what happens. The zero value logs nothing.
	Log zerolog.Logger
}

// DefaultConfig returns the configuration of a server that keeps its ledger in
// memory and listens on DefaultPort on loopback.
func DefaultConfig() Config {
	return Config{
		Listen: net.JoinHostPort("127.0.0.1", fmt.Sprint(DefaultPort)),
		Rules:  quorum.DefaultConfig(),
		Log:    zerolog.Nop(),
	}.withOwnDefaults()
}

// withOwnDefaults returns c with its own zeros that mean a default filled in.
func (c Config) withOwnDefaults() Config {
	c.BeatInterval = cmp.Or(c.BeatInterval, DefaultBeatInterval)
	c.TorchftHeartbeatTimeout = cmp.Or(c.TorchftHeartbeatTimeout, DefaultTorchftHeartbeatTimeout)
	c.MaxJobs = cmp.Or(c.MaxJobs, DefaultMaxJobs)
	c.MaxReplicasPerJob = cmp.Or(c.MaxReplicasPerJob, DefaultMaxReplicasPerJob)
	c.HelloTimeout = cmp.Or(c.HelloTimeout, DefaultHelloTimeout)
	c.MaxConns = cmp.Or(c.MaxConns, DefaultMaxConns)
	c.MaxConnsPerHost = cmp.Or(c.MaxConnsPerHost, DefaultMaxConnsPerHost)
	if c.Network == nil {
		c.Network = network.Machine()
	}
	return c
}

// withDefaults is withOwnDefaults, and the same of what c has of the cluster and of raft,
// where some follow from Listen.
func (c Config) withDefaults() Config {
	c = c.withOwnDefaults()
	c.Cluster = c.Cluster.WithDefaults(c.Listen)
	c.Raft = c.Raft.WithDefaults(c.Cluster.Several())
	return c
}

// Validate returns all problems of c, joined.
func (c Config) Validate() error {
	c = c.withDefaults()
	var l problems.List
	want := l.Want
	_, _, err := net.SplitHostPort(c.Listen)
	want(err == nil, "Listen", c.Listen, "host:port")
	_, _, err = net.SplitHostPort(c.Advertise)
	want(c.Advertise == "" || err == nil && len(c.Advertise) <= wire.MaxAddressBytes, "Advertise", c.Advertise, "host:port")
	l.Add(c.Rules.Validate())
	want(c.Rules.MinReplicas <= wire.MaxMembers, "MinReplicas", c.Rules.MinReplicas, "at most %d", wire.MaxMembers)
	problems.Within(&l, "JoinTimeout", c.Rules.JoinTimeout, minTimeout, wire.MaxTimeout)
	problems.Within(&l, "HeartbeatTimeout", c.Rules.HeartbeatTimeout, minTimeout, wire.MaxTimeout)
	problems.Within(&l, "TorchftHeartbeatTimeout", c.TorchftHeartbeatTimeout, minTimeout, wire.MaxTimeout)
	problems.Within(&l, "BeatInterval", c.BeatInterval, minTimeout, wire.MaxTimeout)
	problems.Within(&l, "HelloTimeout", c.HelloTimeout, minTimeout, wire.MaxTimeout)
	l.Add(c.Raft.Validate(), c.Cluster.Validate(c.DataDir))
	l.About("Config.Guard", c.Guard.Validate())
	want(c.Guard.TLSCA == "" || c.Guard.TLSCert != "", "Guard.TLSCert", "", "this server's certificate, since TLSCA = %q", c.Guard.TLSCA)
	want(c.MaxConns >= 1, "MaxConns", c.MaxConns, "at least 1")
	want(c.MaxConnsPerHost >= 1, "MaxConnsPerHost", c.MaxConnsPerHost, "at least 1")
	want(c.MaxReplicasPerJob >= max(c.Rules.MinReplicas, 1) && c.MaxReplicasPerJob <= quorum.MaxMembers, "MaxReplicasPerJob", c.MaxReplicasPerJob,
		"Rules.MinReplicas = %d to %d", max(c.Rules.MinReplicas, 1), quorum.MaxMembers)
	problems.Within(&l, "MaxJobs", c.MaxJobs, 1, cluster.MaxJobs)
	return l.Err()
}
