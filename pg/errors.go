package pg

import (
	"errors"
	"fmt"

	"github.com/skerry-ft/skerry/pg/reach"
	"github.com/skerry-ft/skerry/tensor"
)

// The sentinels of this package, one per decision the caller can take.
var (
	// ErrAborted is returned, joined with the first cause, by every call on a
	// broken group. The only legal next action is Configure (or Close).
	ErrAborted = errors.New("pg: aborted")
	// ErrUnconfigured is returned by calls before the first Configure.
	ErrUnconfigured = errors.New("pg: not configured")
	// ErrClosed is returned by calls after Close.
	ErrClosed = errors.New("pg: closed")
	// ErrUsedPrefix is returned by Configure for a store prefix or an epoch
	// that this group has had before. Ask the lighthouse for a new quorum.
	ErrUsedPrefix = errors.New("pg: store prefix or epoch used before")
	// ErrMismatch is returned on all sides when ranks called different
	// collectives; the message names what each side called.
	ErrMismatch = errors.New("pg: ranks called different collectives")
	// ErrInvalidOp is returned for an op that no group could run: a
	// non-contiguous tensor, a dtype the reduce op does not take, a rank out
	// of bounds. The group is not broken by it.
	ErrInvalidOp = errors.New("pg: invalid op")
	// ErrNotParticipating is returned by Managed for verbs with a slot per
	// rank when this replica heals or is a spare.
	ErrNotParticipating = errors.New("pg: not participating in this step")
	// ErrNotMember is returned by every verb of a subgroup on a rank that is not
	// part of it, where Rank is -1.
	ErrNotMember = errors.New("pg: not a member of this group")
	// ErrUnknownGroup is returned for a group, or a name, that is not (or no
	// longer) one of the world's.
	ErrUnknownGroup = errors.New("pg: unknown group")
	// ErrNameTaken is returned for a group name that is in use.
	ErrNameTaken = errors.New("pg: group name is taken")
	// ErrPeerLost is the cause when a link to a peer broke or fell silent.
	ErrPeerLost = errors.New("pg: peer lost")
	// ErrUnreachable is the cause, beside ErrPeerLost or ErrNoStore, when a host
	// did not answer for DefaultReachTimeout, or a peer could not be dialled. The
	// link to it is bad; the peer may live. See Prober.
	ErrUnreachable = reach.ErrUnreachable
	// ErrNoStore is returned by Configure when the rendezvous store could not be
	// reached, or was lost. Ask for a quorum without the replica whose it is.
	ErrNoStore = errors.New("pg: no rendezvous store")
	// ErrUnsupported is returned by backends for kinds they do not have. It is
	// an errors.ErrUnsupported.
	ErrUnsupported error = unsupported{}
)

type unsupported struct{}

func (unsupported) Error() string { return "pg: not supported by this backend" }

// Is tells that it is the standard library's error, too.
func (unsupported) Is(target error) bool { return target == errors.ErrUnsupported }

// asOpError gives an error of the kernels the sentinel of an op that they refuse.
func asOpError(err error) error {
	switch {
	case errors.Is(err, tensor.ErrUndefined):
		return fmt.Errorf("%w: %w", ErrInvalidOp, err)
	case errors.Is(err, errors.ErrUnsupported):
		return fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	return err
}

// OpError tells which op failed, where, and who was the culprit. Read it with
// errors.AsType[*pg.OpError](err).
type OpError struct {
	Op       Kind
	Seq      uint64
	QuorumID int64
	Rank     int    // the rank that reports
	Peer     int    // the culprit's rank, or -1
	PeerID   string // the culprit's replica id, or ""
	First    bool   // the reporter saw the culprit's link break, or the culprit call something else, itself; nobody told it
	Err      error
}

func (e *OpError) Error() string {
	who := "no single peer"
	if e.Peer >= 0 {
		who = fmt.Sprintf("peer rank %d (%s)", e.Peer, e.PeerID)
	}
	what := fmt.Sprintf("%v seq %d", e.Op, e.Seq)
	if e.Op == KindInvalid { // the group as a whole
		what = "group of"
	}
	return fmt.Sprintf("%s quorum %d rank %d: %s: %v", what, e.QuorumID, e.Rank, who, e.Err)
}

// Unwrap gives the cause.
func (e *OpError) Unwrap() error { return e.Err }
