package cluster

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"
)

// A leader whose first commands raft does not take yet is no leader without a
// leadership: it is established a little later. What waiting cannot mend ends the
// server. Each leadership that began is revoked.
func TestLeadershipIsEstablishedAgain(t *testing.T) {
	t.Parallel()
	lasting := errors.New("a ledger that cannot be read")
	for _, passing := range []error{
		leadershipError(raft.ErrLeadershipTransferInProgress), raft.ErrEnqueueTimeout, unwritten(errors.New("no space left")),
	} {
		began := make(chan bool, 1)
		began <- true
		left, revoked := []error{passing, passing, lasting}, 0
		terms := terms{log: zerolog.Nop(), began: began, leads: func() bool { return true }, revoke: func() { revoked++ },
			establish: func(context.Context) error {
				err := left[0]
				left = left[1:]
				return fmt.Errorf("begin: %w", err)
			}}
		if err := terms.run(t.Context()); !errors.Is(err, lasting) || len(left) > 0 || revoked == 0 {
			t.Errorf("after %v: %v, %d tries left, revoked %d times", passing, err, len(left), revoked)
		}
	}
}
