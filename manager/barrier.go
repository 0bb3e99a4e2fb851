package manager

import (
	"context"
	"fmt"
	"sync"

	"github.com/skerry-ft/skerry/quorum"
)

// barrier gathers the votes of a replica's ranks, attempt by attempt. An
// attempt is decided once all ranks have voted, or when a rank gives up; the
// decision is one, and is repeated to whoever asks late (C3). Safe for
// concurrent use.
type barrier struct {
	size int

	mu struct {
		sync.Mutex

		attempt uint64 // the open one, or the last decided one
		decided bool
		result  quorum.TallyResult
		votes   []*vote // by group rank
		done    chan struct{}
		tally   *quorum.Tally
		final   error
	}
}

func newBarrier(size int) *barrier {
	b := &barrier{size: size}
	b.mu.decided = true // attempt 0 never was
	b.mu.tally = quorum.NewTally(size)
	return b
}

// vote counts v, calls counted, and waits for the decision on its attempt. When
// ctx ends first,
// the attempt is decided without the missing votes: nobody has committed, since
// a commit needs them all; somebody may have to be told by the settlement.
func (b *barrier) vote(ctx context.Context, v vote, counted func()) (quorum.TallyResult, error) {
	b.mu.Lock()
	if b.mu.final != nil {
		defer b.mu.Unlock()
		return quorum.TallyResult{}, b.mu.final
	}
	if err := b.openLocked(v); err != nil || b.mu.decided {
		defer b.mu.Unlock()
		return b.mu.result, err
	}
	b.mu.votes[v.GroupRank] = &v
	b.decideLocked(false)
	done := b.mu.done
	b.mu.Unlock()
	counted()
	select {
	case <-done:
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.final != nil {
		return quorum.TallyResult{}, b.mu.final
	}
	if b.mu.attempt == v.Attempt && !b.mu.decided {
		b.decideLocked(true)
	}
	if b.mu.attempt != v.Attempt { // the others went on without this late caller
		return quorum.TallyResult{}, fmt.Errorf("vote for attempt %d: the replica is at %d", v.Attempt, b.mu.attempt)
	}
	return b.mu.result, nil
}

// awaits says whether other ranks have voted on an attempt, and this one has
// not.
func (b *barrier) awaits(rank int, attempt uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.attempt == attempt && b.mu.votes != nil && b.mu.votes[rank] == nil
}

// openLocked makes v's attempt the current one, if it may be.
func (b *barrier) openLocked(v vote) error {
	switch {
	case v.Attempt == b.mu.attempt:
		return nil
	case v.Attempt == b.mu.attempt+1 && b.mu.decided:
		b.mu.attempt, b.mu.decided = v.Attempt, false
		b.mu.votes = make([]*vote, b.size)
		b.mu.done = make(chan struct{})
		return nil
	}
	return fmt.Errorf("%w: attempt %d, the replica is at %d: restart all its ranks together",
		quorum.ErrStaleVote, v.Attempt, b.mu.attempt)
}

// decideLocked decides the open attempt if all votes are there, or if it must.
func (b *barrier) decideLocked(must bool) {
	var wanted, void, no, missing bool
	for _, v := range b.mu.votes {
		if v == nil {
			missing = true
			continue
		}
		wanted = wanted || v.ChangeWanted
		void = void || v.Void
		no = no || v.Vote == quorum.VoteNo
	}
	switch {
	case missing && !must:
		return
	case missing && no || void && missing:
		b.mu.result = quorum.TallyResult{Outcome: quorum.TallyAbort, ChangeWanted: wanted}
	case missing:
		b.mu.result = quorum.TallyResult{Outcome: quorum.TallyPrepared, ChangeWanted: wanted}
	case void:
		b.mu.result = quorum.TallyResult{Outcome: quorum.TallyAbort, ChangeWanted: wanted, Stands: true}
	default:
		b.mu.result = b.countLocked(wanted)
	}
	b.mu.decided = true
	close(b.mu.done)
}

// countLocked lets the rules count a full set of votes. Ranks that voted in
// different quorums or for different steps have no step in common.
func (b *barrier) countLocked(wanted bool) quorum.TallyResult {
	for _, v := range b.mu.votes {
		if err := b.mu.tally.Vote(v.RankVote); err != nil {
			return quorum.TallyResult{Outcome: quorum.TallyAbort, ChangeWanted: wanted}
		}
	}
	return b.mu.tally.Result()
}

// close gives err to all waiting and later callers.
func (b *barrier) close(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.final != nil {
		return
	}
	b.mu.final = err
	if !b.mu.decided {
		b.mu.decided = true
		close(b.mu.done)
	}
}
