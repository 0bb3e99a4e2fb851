package lighthouse

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/hashicorp/raft"
)

// A leader whose first commands raft does not take yet is no leader without a
// reign: it begins a little later. What waiting cannot mend ends the server.
func TestReignIsBegunAgain(t *testing.T) {
	t.Parallel()
	s, ctx := serving(t)
	if _, err := s.reign(ctx); err != nil { // raft leads
		t.Fatal(err)
	}
	lasting := errors.New("a ledger that cannot be read")
	for _, passing := range []error{
		leadershipError(raft.ErrLeadershipTransferInProgress), raft.ErrEnqueueTimeout, unwritten(errors.New("no space left")),
	} {
		other := &Server{ledger: s.ledger, log: s.log} // the reign of s is left alone
		other.mu.changed = make(chan struct{})
		leads := make(chan bool, 1)
		leads <- true
		left := []error{passing, passing, lasting}
		err := other.leadAs(ctx, leads, func(context.Context) error {
			err := left[0]
			left = left[1:]
			return fmt.Errorf("begin: %w", err)
		})
		if !errors.Is(err, lasting) || len(left) > 0 {
			t.Errorf("after %v: %v, %d tries left", passing, err, len(left))
		}
	}
}
