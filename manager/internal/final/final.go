// Package final has the errors that end training in a replica, as its session, its
// server and its ranks share them. Package manager exports them, and says when each
// is returned.
package final

import "errors"

var (
	ErrDrained     = errors.New("manager: drained")
	ErrEvicted     = errors.New("manager: evicted")
	ErrRefused     = errors.New("manager: refused by the lighthouse")
	ErrRankLost    = errors.New("manager: a rank of this replica is gone")
	ErrUnreachable = errors.New("manager: lighthouse unreachable")
	ErrDiffered    = errors.New("manager: states differed")
	ErrClosed      = errors.New("manager: closed")
)

// Is says whether err is one of them.
func Is(err error) bool {
	for _, sentinel := range []error{ErrDrained, ErrEvicted, ErrRefused, ErrRankLost, ErrUnreachable, ErrDiffered, ErrClosed} {
		if errors.Is(err, sentinel) {
			return true
		}
	}
	return false
}
