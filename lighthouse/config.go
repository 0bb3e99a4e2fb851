package lighthouse

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/internal/wire"
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
	// stays within MaxBeatsPerSecond.
	DefaultBeatInterval = 100 * time.Millisecond

	// DefaultTorchftHeartbeatTimeout is the heartbeat timeout of jobs whose
	// members are torchft's clients.
	DefaultTorchftHeartbeatTimeout = 5 * time.Second

	// DefaultHelloTimeout is how long a connection may take to say what it is.
	DefaultHelloTimeout = 10 * time.Second

	// MaxBeatsPerSecond bounds the sum of all sessions' beats: with more than
	// MaxBeatsPerSecond × BeatInterval sessions, the interval grows.
	MaxBeatsPerSecond = 20_000

	// DefaultProbationAfter is how many short memberships in a row bring a replica
	// on probation, where an operator does not say otherwise. A Config has none by
	// itself: who embeds a server, above all a test, kills on purpose.
	DefaultProbationAfter = 5

	minTimeout = time.Millisecond
)

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

	// Listener is where clients come from, if not nil, instead of Listen; the
	// server closes it.
	Listener net.Listener

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
	// number of sessions (MaxBeatsPerSecond), and is never more than a fifth of
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
	Cluster ClusterConfig

	// Raft says how this server takes part in raft.
	Raft RaftConfig

	// Guard has the server's certificate and the token for changing actions. Its
	// zero value guards nothing, which is fine on loopback, and refused beyond it.
	Guard Guard

	// OpenJoins lets replicas join that do not prove the token, though there is one:
	// torchft's clients cannot. Whoever reaches the port may then join, put members
	// out in their names and, as a member, read the model.
	OpenJoins bool

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

// RaftConfig says how this server takes part in a raft cluster.
type RaftConfig struct {
	// Transport carries raft's messages. nil is TCP for one of several
	// servers, and a transport within the process for a server alone.
	Transport raft.Transport

	// Servers bootstraps a new cluster of these voters, this server among
	// them by its transport's address. Empty bootstraps a cluster of this
	// server alone. A server that has a ledger already ignores it.
	Servers []raft.Server

	// Disk wraps what raft writes to, for tests in which a disk fails. nil wraps
	// nothing.
	Disk func(Disk) Disk

	// Memory keeps what raft writes where there is no DataDir, for tests in which a
	// server starts again in one process: with the same Memory it goes on with its
	// ledger. nil: memory that is gone with the server.
	Memory *RaftMemory

	// DiskTimeout is how long a write of the log may take before it counts as
	// failed: the leader steps down then, and another leads. Too low, and a busy
	// disk moves the leadership about; too high, and one that hangs stops all
	// quorums for as long. 0 means DefaultDiskTimeout.
	DiskTimeout time.Duration

	// LocalID is this server's raft id. Empty takes the one in DataDir, or
	// draws a new one.
	LocalID raft.ServerID

	// Heartbeat, Election and Lease are raft's timeouts: a follower that hears
	// nothing for Heartbeat starts an election; a leader that reaches no
	// majority for Lease steps down; Lease <= Heartbeat <= Election. Lower ones
	// fail over faster and are more easily upset by a busy machine. 0 means
	// 300, 300 and 200 ms, or 50 ms each for a cluster of one, where nobody
	// competes.
	Heartbeat, Election, Lease time.Duration
}

// DefaultConfig returns the configuration of a server that keeps its ledger in
// memory and listens on DefaultPort on loopback.
func DefaultConfig() Config {
	return Config{
		Listen:                  net.JoinHostPort("127.0.0.1", fmt.Sprint(DefaultPort)),
		Rules:                   quorum.DefaultConfig(),
		TorchftHeartbeatTimeout: DefaultTorchftHeartbeatTimeout,
		BeatInterval:            DefaultBeatInterval,
		HelloTimeout:            DefaultHelloTimeout,
		MaxConns:                DefaultMaxConns,
		MaxConnsPerHost:         DefaultMaxConnsPerHost,
		MaxJobs:                 DefaultMaxJobs,
		MaxReplicasPerJob:       DefaultMaxReplicasPerJob,
		Log:                     zerolog.Nop(),
	}
}

// withDefaults returns c with its zeros that mean a default filled in.
func (c Config) withDefaults() Config {
	if c.BeatInterval == 0 {
		c.BeatInterval = DefaultBeatInterval
	}
	if c.TorchftHeartbeatTimeout == 0 {
		c.TorchftHeartbeatTimeout = DefaultTorchftHeartbeatTimeout
	}
	if c.MaxJobs == 0 {
		c.MaxJobs = DefaultMaxJobs
	}
	if c.MaxReplicasPerJob == 0 {
		c.MaxReplicasPerJob = DefaultMaxReplicasPerJob
	}
	if c.HelloTimeout == 0 {
		c.HelloTimeout = DefaultHelloTimeout
	}
	if c.MaxConns == 0 {
		c.MaxConns = DefaultMaxConns
	}
	if c.MaxConnsPerHost == 0 {
		c.MaxConnsPerHost = DefaultMaxConnsPerHost
	}
	c.Cluster = c.Cluster.withDefaults(c.Listen)
	r := &c.Raft
	if r.DiskTimeout == 0 {
		r.DiskTimeout = DefaultDiskTimeout
	}
	defaults := [3]time.Duration{300 * time.Millisecond, 300 * time.Millisecond, 200 * time.Millisecond}
	if len(r.Servers) <= 1 && r.Transport == nil && !c.Cluster.clustered() {
		defaults = [3]time.Duration{50 * time.Millisecond, 50 * time.Millisecond, 50 * time.Millisecond}
	}
	for i, d := range []*time.Duration{&r.Heartbeat, &r.Election, &r.Lease} {
		if *d == 0 {
			*d = defaults[i]
		}
	}
	return c
}

// Validate returns all problems of c, joined.
func (c Config) Validate() error {
	c = c.withDefaults()
	var problems []error
	want := func(ok bool, field string, value any, bound string, args ...any) {
		if !ok {
			problems = append(problems, fmt.Errorf("%s = %v, want %s", field, value, fmt.Sprintf(bound, args...)))
		}
	}
	_, _, err := net.SplitHostPort(c.Listen)
	want(err == nil, "Listen", c.Listen, "host:port")
	_, _, err = net.SplitHostPort(c.Advertise)
	want(c.Advertise == "" || err == nil && len(c.Advertise) <= wire.MaxAddressBytes, "Advertise", c.Advertise, "host:port")
	if err := c.Rules.Validate(); err != nil {
		problems = append(problems, err)
	}
	want(c.Rules.MinReplicas <= wire.MaxMembers, "MinReplicas", c.Rules.MinReplicas, "at most %d", wire.MaxMembers)
	for _, d := range []struct {
		field string
		value time.Duration
	}{
		{"JoinTimeout", c.Rules.JoinTimeout},
		{"HeartbeatTimeout", c.Rules.HeartbeatTimeout},
		{"TorchftHeartbeatTimeout", c.TorchftHeartbeatTimeout},
		{"BeatInterval", c.BeatInterval},
		{"HelloTimeout", c.HelloTimeout},
		{"Raft.Heartbeat", c.Raft.Heartbeat},
		{"Raft.Election", c.Raft.Election},
		{"Raft.Lease", c.Raft.Lease},
		{"Raft.DiskTimeout", c.Raft.DiskTimeout},
	} {
		want(d.value >= minTimeout && d.value <= wire.MaxTimeout, d.field, d.value, "%v to %v", minTimeout, wire.MaxTimeout)
	}
	want(c.Raft.Lease <= c.Raft.Heartbeat, "Raft.Lease", c.Raft.Lease, "at most Raft.Heartbeat = %v", c.Raft.Heartbeat)
	want(c.Raft.Heartbeat <= c.Raft.Election, "Raft.Heartbeat", c.Raft.Heartbeat, "at most Raft.Election = %v", c.Raft.Election)
	if problem := c.Cluster.problems(c.DataDir); problem != nil {
		problems = append(problems, problem...)
	}
	if err := c.Guard.Validate(); err != nil {
		problems = append(problems, fmt.Errorf("Config.Guard: %w", err))
	}
	want(c.Guard.TLSCA == "" || c.Guard.TLSCert != "", "Guard.TLSCert", `""`, "this server's certificate, since TLSCA = %q", c.Guard.TLSCA)
	want(c.MaxConns >= 1, "MaxConns", c.MaxConns, "at least 1")
	want(c.MaxConnsPerHost >= 1, "MaxConnsPerHost", c.MaxConnsPerHost, "at least 1")
	want(c.MaxReplicasPerJob >= max(c.Rules.MinReplicas, 1) && c.MaxReplicasPerJob <= quorum.MaxMembers, "MaxReplicasPerJob", c.MaxReplicasPerJob,
		"Rules.MinReplicas = %d to %d", max(c.Rules.MinReplicas, 1), quorum.MaxMembers)
	want(c.MaxJobs >= 1 && c.MaxJobs <= maxSnapshotJobs, "MaxJobs", c.MaxJobs, "1 to %d", maxSnapshotJobs)
	return errors.Join(problems...)
}

// missedBeats is how many beat intervals lie in the silence that makes a
// replica suspect.
const missedBeats = 5
