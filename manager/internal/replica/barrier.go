package replica

import (
	"context"
	"fmt"

	"github.com/skerry-ft/skerry/internal/monitor"
	"github.com/skerry-ft/skerry/quorum"
)

// barrier is where a replica's ranks wait for one decision: a lock around its
// polls. Safe for concurrent use.
type barrier struct {
	mu struct {
		monitor.Monitor

		polls *quorum.Polls
		final error // the replica has ended
	}
}

func newBarrier(size int) *barrier {
	b := &barrier{}
	b.mu.polls = quorum.NewPolls(size)
	return b
}

// vote counts v, calls counted, and waits for the decision on its attempt, or for
// ctx to end: then the vote is counted, and the attempt open.
func (b *barrier) vote(ctx context.Context, v quorum.RankVote, counted func()) (quorum.TallyResult, error) {
	if err := b.count(v); err != nil {
		return quorum.TallyResult{}, err
	}
	counted()
	var result quorum.TallyResult
	var final error
	err := b.mu.Await(ctx, 0, func() (decided bool) {
		if result, decided = b.mu.polls.ResultFor(v); !decided { // a decision stands, also if the replica ended since
			final = b.mu.final
		}
		return decided || final != nil
	})
	if err != nil {
		return quorum.TallyResult{}, fmt.Errorf("wait for the other ranks' votes: %w", err)
	}
	return result, final
}

func (b *barrier) count(v quorum.RankVote) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.mu.polls.Result(v.Attempt); !ok && b.mu.final != nil {
		return b.mu.final
	}
	err := b.mu.polls.Vote(v)
	b.mu.Broadcast()
	return err
}

// awaits is quorum.Polls.Awaits.
func (b *barrier) awaits(r quorum.RankReport) (next uint64, awaits bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.polls.Awaits(r)
}

// next is quorum.Polls.Next.
func (b *barrier) next(rank int) uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.polls.Next(rank)
}

// restarted is quorum.Polls.Restarted.
func (b *barrier) restarted(rank int, attempt uint64) (next uint64, restarted bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.polls.Restarted(rank, attempt)
}

// close gives err to all waiting and later callers whose attempt is not decided.
func (b *barrier) close(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.final == nil {
		b.mu.final = err
	}
	b.mu.Broadcast()
}
