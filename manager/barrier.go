package manager

import (
	"context"
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

// vote counts v, calls counted, and waits for the decision on its attempt. When
// ctx ends first, the attempt is decided without the missing votes.
func (b *barrier) vote(ctx context.Context, v quorum.RankVote, counted func()) (quorum.TallyResult, error) {
	if err := b.count(v); err != nil {
		return quorum.TallyResult{}, err
	}
	counted()
	for {
		b.mu.Lock()
		if ctx.Err() != nil {
			b.mu.polls.End(v.Attempt)
			b.wakeLocked()
		}
		result, ok, err := b.mu.polls.Result(v.Attempt)
		final, decided := b.mu.final, b.mu.decided
		b.mu.Unlock()
		switch {
		case ok: // it stands, also if the replica ended since
			return result, nil
		case err != nil:
			return quorum.TallyResult{}, err
		case final != nil:
			return quorum.TallyResult{}, final
		}
		select {
		case <-decided:
		case <-ctx.Done():
		}
	}
}

func (b *barrier) count(v quorum.RankVote) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok, _ := b.mu.polls.Result(v.Attempt); !ok && b.mu.final != nil { // Vote says what is stale
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

// awaits says whether other ranks have voted on an attempt, and this one has
// not.
func (b *barrier) awaits(rank int, attempt uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.polls.Awaits(rank, attempt)
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
