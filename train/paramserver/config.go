package paramserver

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/netaddr"
	"github.com/skerry-ft/skerry/internal/problems"
	"github.com/skerry-ft/skerry/internal/proof"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/store"
)

// Bounds and defaults of a server.
const (
	// DefaultMaxSessions is how many sessions there are at a time.
	DefaultMaxSessions = 64
	// MaxSessions bounds ServerConfig.MaxSessions.
	MaxSessions = 1 << 14
	// DefaultMeetTimeout is how long a session waits for its client.
	DefaultMeetTimeout = 30 * time.Second

	maxRequests    = 256 // under way; a request takes no longer than its answer
	maxConns       = 1024
	requestTimeout = 10 * time.Second
	maxHeaderBytes = 4 << 10
	maxStoreBytes  = 64 << 20    // of all sessions: addresses, and who has left
	sweepPeriod    = time.Second // far longer than a command takes

	// authWait: a session's secret is known before its client hears of the session.
	authWait = time.Millisecond
)

// Errors of Dial.
var (
	// ErrBusy is returned where all places for sessions are taken; try again later.
	ErrBusy = errors.New("paramserver: all sessions are taken")
	// ErrDenied is returned where the server asks for another token.
	ErrDenied = errors.New("paramserver: the server denies the session")
)

// Session tells Forward whom it serves.
type Session struct {
	ID     string // drawn by the server; never used again
	Remote string // "host:port" that the request came from
}

// ServerConfig says how a Server listens and what it serves.
type ServerConfig struct {
	// Listen is "host:port" of the HTTP listener; the store takes a free port of the same
	// host. Empty means "127.0.0.1:0".
	Listen string
	// Advertise is the host at which clients reach the store. Empty means that of Listen,
	// which must then not be every interface.
	Advertise string

	// Backend makes an unconfigured backend for a session, which closes it. Its options say
	// where the data plane listens; required.
	Backend func() (pg.Backend, error)
	// Forward serves one session, as rank 0 of a group of two; required.
	Forward func(ctx context.Context, s Session, g *pg.Group) error

	// MaxSessions bounds the sessions at a time; 0 means DefaultMaxSessions. Each costs a
	// backend: for pg/tcp some goroutines, sockets and a port.
	MaxSessions int
	// MeetTimeout is how long a session waits for its client; 0 means DefaultMeetTimeout. Too
	// low loses clients that are slow to connect; too high lets clients that died hold places.
	MeetTimeout time.Duration
	// Timeout bounds an operation that has no deadline, and the wait for the client to close
	// at the end; 0 means pg.DefaultTimeout.
	Timeout time.Duration

	// Token guards the server, if not empty: clients prove it.
	Token []byte
	// TLS encrypts requests, the store and the data plane; nil: they are plain.
	TLS *store.TLS
	// Open lets other hosts reach a server that nothing guards.
	Open bool

	Log zerolog.Logger
}

// Validate returns all problems, joined.
func (c ServerConfig) Validate() error {
	var l problems.List
	listen := cmp.Or(c.Listen, store.DefaultListen)
	netaddr.CheckAdvertised(&l, listen, c.Advertise)
	l.Want(c.Backend != nil, "Backend", "", "what makes a backend")
	l.Want(c.Forward != nil, "Forward", "", "what serves a session")
	problems.Within(&l, "MaxSessions", c.MaxSessions, 0, MaxSessions)
	problems.NotNegative(&l, "MeetTimeout", c.MeetTimeout)
	problems.NotNegative(&l, "Timeout", c.Timeout)
	l.Short("Token", len(c.Token), store.MaxTokenBytes)
	return l.Err()
}

func (c ServerConfig) withDefaults() ServerConfig {
	c.Listen = cmp.Or(c.Listen, store.DefaultListen)
	c.MaxSessions = cmp.Or(c.MaxSessions, DefaultMaxSessions)
	c.MeetTimeout = cmp.Or(c.MeetTimeout, DefaultMeetTimeout)
	c.Timeout = cmp.Or(c.Timeout, pg.DefaultTimeout)
	return c
}

// What clients and server agree on.
const (
	newSessionPath = "/new_session"
	proofHeader    = "Skerry-Proof"
	proofScope     = "skerry paramserver new session v1" // of guard.Token's proofs
	secretPurpose  = "skerry paramserver session v1"     // of package proof
	sessionPrefix  = "session/"
	serverRank     = 0
	clientRank     = 1
)

// answer is what a request for a session gets, as torchft's.
type answer struct {
	ID      string `json:"session_id"`
	Address string `json:"store_addr"`
}

// secretOf is the secret of a session.
func secretOf(token []byte, id string) []byte { return proof.Of(token, secretPurpose, []byte(id)) }

func tokenOf(token []byte) *guard.Token { return guard.FixedToken(guard.NewSecret(token)) }

// groupOf is how a rank meets the other one of a session.
func groupOf(id string, rank int, token []byte, tls *store.TLS, timeout time.Duration) pg.Config {
	return pg.Config{
		StoreAddress: sessionPrefix + id, ReplicaIDs: []string{"server", "client"}, Rank: rank,
		Cluster: id, QuorumID: 1, GroupWorldSize: 1, Token: secretOf(token, id), TLS: tls, Timeout: timeout,
	}
}
