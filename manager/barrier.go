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

		current  *poll // the open one, or the last decided one
		previous *poll // for a rank whose answer was lost, while others went on
		final    error
	}
}

// poll is one attempt's votes. Its fields are guarded by barrier.mu; result may
// be read once done is closed.
type poll struct {
	attempt uint64
	votes   []*vote       // by group rank
	done    chan struct{} // closed by the decision
	decided bool
	result  quorum.TallyResult
	err     error // instead of a result: the replica ended first
}

func newBarrier(size int) *barrier {
	return &barrier{size: size}
}

// vote counts v, calls counted, and waits for the decision on its attempt. When
// ctx ends first, the attempt is decided without the missing votes: nobody has
// committed, since a commit needs them all; somebody may have to be told by the
// settlement.
func (b *barrier) vote(ctx context.Context, v vote, counted func()) (quorum.TallyResult, error) {
	b.mu.Lock()
	p, err := b.pollLocked(v.Attempt)
	if err != nil {
		b.mu.Unlock()
		return quorum.TallyResult{}, err
	}
	if !p.decided {
		p.votes[v.GroupRank] = &v
		b.decideLocked(p, false)
	}
	b.mu.Unlock()
	counted()
	select {
	case <-p.done:
	case <-ctx.Done():
		b.mu.Lock()
		if !p.decided {
			b.decideLocked(p, true)
		}
		b.mu.Unlock()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return p.result, p.err // a decision stands, also if the replica ended since
}

// awaits says whether other ranks have voted on an attempt, and this one has
// not.
func (b *barrier) awaits(rank int, attempt uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.mu.current
	return p != nil && p.attempt == attempt && p.votes[rank] == nil
}

// pollLocked finds the poll of an attempt, and opens it if it is the next one.
func (b *barrier) pollLocked(attempt uint64) (*poll, error) {
	last := uint64(0)
	if p := b.mu.current; p != nil {
		last = p.attempt
		switch {
		case attempt == p.attempt:
			return p, nil
		case b.mu.previous != nil && attempt == b.mu.previous.attempt:
			return b.mu.previous, nil
		}
	}
	if b.mu.final != nil {
		return nil, b.mu.final
	}
	if attempt != last+1 || b.mu.current != nil && !b.mu.current.decided {
		return nil, fmt.Errorf("%w: attempt %d, the replica is at %d: restart all its ranks together",
			quorum.ErrStaleVote, attempt, last)
	}
	b.mu.previous = b.mu.current
	b.mu.current = &poll{attempt: attempt, votes: make([]*vote, b.size), done: make(chan struct{})}
	return b.mu.current, nil
}

// decideLocked decides p if all votes are there, or if it must.
func (b *barrier) decideLocked(p *poll, must bool) {
	var wanted, void, no, missing bool
	for _, v := range p.votes {
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
	case missing && no:
		p.result = quorum.TallyResult{Outcome: quorum.TallyAbort, ChangeWanted: wanted}
	case missing:
		p.result = quorum.TallyResult{Outcome: quorum.TallyPrepared, ChangeWanted: wanted}
	case void:
		p.result = quorum.TallyResult{Outcome: quorum.TallyAbort, ChangeWanted: wanted, Stands: true}
	default:
		p.result = p.count(b.size, wanted)
	}
	p.decided = true
	close(p.done)
}

// count lets the rules count a full set of votes, in a tally of their own: an
// attempt may repeat a step of the same quorum and round. Ranks that voted in
// different quorums or for different steps have no step in common.
func (p *poll) count(size int, wanted bool) quorum.TallyResult {
	apart := quorum.TallyResult{Outcome: quorum.TallyAbort, ChangeWanted: wanted}
	tally := quorum.NewTally(size)
	for _, v := range p.votes {
		if tally.Vote(v.RankVote) != nil {
			return apart
		}
	}
	if r := tally.Result(); r.Outcome != quorum.TallyPending {
		return r
	}
	return apart
}

// close gives err to all waiting and later callers, but to those who ask for
// what was decided before: another rank may have committed it.
func (b *barrier) close(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.final != nil {
		return
	}
	b.mu.final = err
	if p := b.mu.current; p != nil && !p.decided {
		p.decided, p.err = true, err
		close(p.done)
	}
}
