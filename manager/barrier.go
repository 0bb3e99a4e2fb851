package manager

import (
	"context"
	"fmt"
	"sync"

	"github.com/skerry-ft/skerry/quorum"
)

// barrier is where a replica's ranks wait for one decision: a lock around its
// polls. Safe for concurrent use.
type barrier struct {
	mu struct {
		sync.Mutex

		polls   *quorum.Polls
		decided chan struct{} // closed and replaced at each decision, and at the end
		final   error         // the replica has ended
	}
}

func newBarrier(size int) *barrier {
	b := &barrier{}
	b.mu.polls, b.mu.decided = quorum.NewPolls(size), make(chan struct{})
	return b
}

// vote counts v, calls counted, and waits for the decision on its attempt, or for
// ctx to end: then the vote is counted, and the attempt open.
func (b *barrier) vote(ctx context.Context, v quorum.RankVote, counted func()) (quorum.TallyResult, error) {
	if err := b.count(v); err != nil {
		return quorum.TallyResult{}, err
	}
	counted()
	for {
		b.mu.Lock()
		result, ok := b.mu.polls.ResultFor(v)
		final, decided := b.mu.final, b.mu.decided
		b.mu.Unlock()
		switch {
		case ok: // it stands, also if the replica ended since
			return result, nil
		case final != nil:
			return quorum.TallyResult{}, final
		}
		select {
		case <-decided:
		case <-ctx.Done():
			return quorum.TallyResult{}, fmt.Errorf("wait for the other ranks' votes: %w", context.Cause(ctx))
		}
	}
}

func (b *barrier) count(v quorum.RankVote) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.mu.polls.Result(v.Attempt); !ok && b.mu.final != nil {
		return b.mu.final
	}
	err := b.mu.polls.Vote(v)
	b.wakeLocked()
	return err
}

// wakeLocked lets all who wait look again.
func (b *barrier) wakeLocked() {
	close(b.mu.decided)
	b.mu.decided = make(chan struct{})
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
	b.wakeLocked()
}
