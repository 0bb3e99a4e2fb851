package pg

import (
	"context"
	"time"

	"github.com/skerry-ft/skerry/store"
)

// Backend is what an implementation of a process group provides, and what a
// decorator wraps. All methods are safe for concurrent use.
type Backend interface {
	// Name is the registered name, lower case: "tcp", "nccl", "baby:tcp".
	Name() string

	// Configure connects this rank to the others of c and starts epoch
	// (c.Cluster, c.QuorumID). It ends the epoch before: ops still pending
	// fail first. It blocks until every rank is reachable, or fails when ctx
	// ends or the group is aborted; then the group is broken, and the next
	// Configure needs a new quorum id. A prefix or an epoch that was used
	// before is an error (ErrUsedPrefix), not a hang.
	Configure(ctx context.Context, c Config) error

	// Submit starts op and returns without waiting for any peer. It takes
	// collectives in the order of the calls. A malformed op, and any op of a
	// group that is broken or unconfigured, returns a Work that has failed
	// already. The backend owns op and its tensors until the Work is done.
	Submit(op *Op) *Work

	// Abort makes every pending op of epoch e fail now with cause, tells the
	// peers, and breaks the group. It never blocks on a peer, and is a no-op
	// for any other epoch. The first cause wins.
	Abort(e Epoch, cause error)

	// Err is the first cause since Configure, or nil. ErrUnconfigured before
	// the first one.
	Err() error

	// Close aborts with ErrClosed, waits until nothing touches any tensor,
	// and releases goroutines, sockets and files. Safe to call twice.
	Close() error
}

// Rounder is implemented by backends whose frames carry the round. SetRound
// takes effect for ops submitted after it; ops of different rounds never
// match, and break the group on both sides.
type Rounder interface {
	SetRound(round int64)
}

// Unwrapper is implemented by decorators.
type Unwrapper interface {
	Unwrap() Backend
}

// Sibling is implemented by backends that can make another of their kind, with
// the same options: the one of a subgroup. For a backend without it a subgroup
// opens one by name; see Group.NewGroup.
type Sibling interface {
	// Sibling makes an unconfigured backend. It starts nothing.
	Sibling() (Backend, error)
}

// Redecorator is implemented by decorators that go on around subgroups.
// Subgroups of a group with a decorator that does not implement it are without
// that decorator.
type Redecorator interface {
	Unwrapper
	// Redecorate puts the same decoration around inner, the backend of a
	// subgroup of the group below that has these ranks as members.
	Redecorate(inner Backend, members []int) Backend
}

// Config says which group a rank is to become part of.
type Config struct {
	// StoreAddress is "host:port/prefix" of the rendezvous store. The prefix
	// is used once: host:port/skerry/<cluster>/<job>/<quorum id>/<group rank>.
	StoreAddress string

	// Store, if set, is the rendezvous store itself, which the caller closes;
	// StoreAddress is then only the prefix in it. Use OpenStore.
	Store store.Store

	// ReplicaIDs are the members in rank order; len is the world size. They
	// name culprits in errors and are the keys of edges: together with
	// GroupRank they say which sockets can stay. Unique, non-empty.
	ReplicaIDs []string
	Rank       int // of this process, in [0, len(ReplicaIDs))

	Cluster  string
	QuorumID int64
	Round    int64

	GroupRank      int // which rank of each replica this group connects
	GroupWorldSize int

	// Token is the quorum's secret, which store and data-plane handshakes
	// prove; empty in an unguarded run.
	Token []byte
	// TLS encrypts the connections to the store, and the sockets between members; nil:
	// they are plain. All members have one, or none has. Backends that cannot (package
	// nccl) leave their own data in the clear: see docs/SECURITY.md.
	TLS *store.TLS

	// Timeout bounds an op that has no deadline of its own; 0 means
	// DefaultTimeout.
	Timeout time.Duration

	// ReachTimeout is after how long without an answer the store's host is out of
	// reach: for members that know that it is up. 0: Configure tries as long as it
	// may last.
	ReachTimeout time.Duration
	// MeetTimeout is after how long Configure gives up members that do not come,
	// and names them: for members that were told at one time. 0: only Configure's
	// own deadline does.
	MeetTimeout time.Duration
}

// DefaultTimeout bounds ops and configurations that name no deadline.
const DefaultTimeout = 60 * time.Second

// OpenStore opens the store of c at its prefix. Closing it leaves Config.Store
// open.
//
// Errors: ErrNoStore, with ErrUnreachable if its host does not answer; those of
// package store.
func (c Config) OpenStore(ctx context.Context) (store.Store, error) {
	if c.Store != nil {
		return store.WithPrefix(c.Store, c.StoreAddress), nil
	}
	return openStore(ctx, c.ReachTimeout, c.StoreAddress, store.ClientConfig{Token: c.Token, TLS: c.TLS})
}

// WorldSize is the number of ranks of the group.
func (c Config) WorldSize() int { return len(c.ReplicaIDs) }

// Epoch is the epoch that Configure starts.
func (c Config) Epoch() Epoch { return Epoch{Cluster: c.Cluster, QuorumID: c.QuorumID} }
