package quorum

import (
	"errors"
	"fmt"
)

// The ways in which an input is refused. Each leaves the machine as it was.
var (
	// ErrKind is returned by Open, Beat, Heartbeat and Join when the job's first join
	// fixed the other kind of client. Asking again cannot help.
	ErrKind = errors.New("quorum: the job holds another kind of client")
	// ErrStaleJoin is returned by Join for a number below one already seen from
	// this replica, or not above one that was answered on its present stream. The
	// caller has a newer join under way, or an answer; drop this one.
	ErrStaleJoin = errors.New("quorum: a newer join was seen")
	// ErrNameInUse is returned by Open, Beat and Join, and is what a
	// NoticeRefused says, when another incarnation of the same name is alive.
	// End the other one, or choose another name.
	ErrNameInUse = errors.New("quorum: name in use")
	// ErrDrained is returned by Join when the replica was drained and is no
	// member of the last quorum any more. Exit.
	ErrDrained = errors.New("quorum: drained")
	// ErrEvicted is returned by Open, Beat and Join when the replica was
	// evicted. Exit; a new incarnation may come.
	ErrEvicted = errors.New("quorum: evicted")
	// ErrFull is returned by Open, Heartbeat and Join when a bound on replicas
	// or on waiting joins is reached. Try again later.
	ErrFull = errors.New("quorum: full")
	// ErrModes is returned by Join when a mode that must be equal in the whole
	// job differs from that of a live member. Mend the configuration.
	ErrModes = errors.New("quorum: modes differ")
	// ErrInvalid is returned for anything malformed or over a bound, with the
	// value and the bound. It is a fault of the sender.
	ErrInvalid = errors.New("quorum: invalid")
	// ErrNotIssued is returned by Open, Beat and Join for a quorum id that no
	// lighthouse can have issued yet, as far as this one can tell. Mend the clock
	// of the lighthouse, or the replica.
	ErrNotIssued = errors.New("quorum: id not issued")
	// ErrNoSession is returned by Join and Beat after the replica said goodbye on
	// its stream, and by Beat when the replica has no open session and
	// is no presumed member. Open first.
	ErrNoSession = errors.New("quorum: no session")
	// ErrUnknown is returned by Drain, Undrain and Evict for a replica that the machine
	// does not know.
	ErrUnknown = errors.New("quorum: unknown replica")
	// ErrNoDrain is returned by Undrain where no drain can be taken back.
	ErrNoDrain = errors.New("quorum: no drain to take back")
	// ErrFenced is returned by ApplyFormed when a command does not follow the
	// ledger's last quorum. Rebuild the machine from the ledger.
	ErrFenced = errors.New("quorum: fenced")
	// ErrNotMember is returned by Assign for a replica that is not in the quorum.
	ErrNotMember = errors.New("quorum: not a member")
	// ErrStaleVote is returned by Tally.Vote for a vote about an older quorum,
	// round or step than the one under way.
	ErrStaleVote = errors.New("quorum: stale vote")
)

// invalidf wraps ErrInvalid with what was wrong.
func invalidf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}
