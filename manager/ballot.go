package manager

import (
	"context"
	"fmt"
	"time"

	"github.com/skerry-ft/skerry/internal/failpoint"
	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/quorum"
)

// balloted is what a rank takes from the ballots to its replica's tally.
type balloted struct {
	vote  quorum.RankVote
	cause error // why the vote is not a yes
}

// exchange makes every local check, gives this rank's ballot if its group
// works, and judges what came.
func (m *Manager) exchange(ctx context.Context, unhealed bool) balloted {
	state := m.comparison.Result(ctx)
	m.mu.Lock()
	b := balloted{cause: m.mu.attempt.err}
	if v, none := m.mu.rank.WithoutBallot(); none {
		m.mu.Unlock()
		b.vote = v
		if v.Broken && b.cause == nil {
			b.cause = errFallen
		}
		return b
	}
	if m.comparison != nil {
		m.mu.rank.Rested(m.comparison.At, state.Digest, m.comparison.Whole)
	}
	own, a := m.mu.rank.Ballot(unhealed), m.mu.rank.Assignment()
	if b.cause == nil && m.mu.rank.TooFew() && !unhealed {
		b.cause = fmt.Errorf("%w: %d, want %d", errTooFew, a.Divisor, m.cfg.MinReplicas)
	}
	b.vote = m.mu.rank.WithoutGroup()
	m.mu.Unlock()
	if err := m.backend.Err(); err != nil {
		b.cause = err
		m.accuseFirst(err, own.QuorumID)
		m.fall(own.QuorumID, err)
		return b
	}
	return m.ballot(ctx, b, own, a)
}

// ballot exchanges own for the others' ballots.
//
// When ctx ends the group is aborted. What the ballots that came mean, they mean
// all the same: if all of them are there, the others commit.
func (m *Manager) ballot(ctx context.Context, b balloted, own quorum.Ballot, a *quorum.Assignment) balloted {
	failpoint.At(ctx, failpoint.BallotBefore)
	m.mu.Lock()
	m.mu.rank.Seal(own)
	m.mu.stats.Ballots++
	patience := m.opTimeoutLocked()
	epoch := m.mu.group
	m.mu.Unlock()
	op := &pg.Op{Kind: pg.KindBallot, Ballot: wire.EncodeBallot(own), Deadline: time.Now().Add(patience)}
	m.balloting.Add(1)
	defer m.balloting.Add(-1)
	w := m.backend.Submit(op)
	failpoint.At(ctx, failpoint.BallotDuring)
	_ = w.Wait(ctx) // it helps, and what became of the op is looked at below
	if !w.Finished() {
		m.managed.Abort(epoch, context.Cause(ctx))
		<-w.Done() // the abort sees to it
	}
	m.mu.Lock()
	rank, ballots := m.mu.rank.Gather(decodeBallots(op.Ballots, own))
	vote, judged := m.mu.rank.Judged(quorum.JudgeBallots(rank, ballots), ballots[rank].Digest, w.Err() != nil)
	m.mu.Unlock()
	failpoint.At(ctx, failpoint.BallotAfter)
	b.vote = vote
	if err := w.Err(); err != nil {
		m.accuseFirst(err, own.QuorumID)
		if b.cause == nil {
			b.cause = err
		}
	}
	if !judged.Yes() && b.cause == nil {
		b.cause = fmt.Errorf("ballot: %s", judged.Reason)
	}
	if len(judged.Differ) > 0 {
		m.differed(ctx, judged, vote.Step)
	}
	if len(judged.Odd) > 0 {
		m.log.Error().Ints("ranks", judged.Odd).Int64(logkey.Step, vote.Step).Msg("reduced bytes differed")
	}
	return b
}

// decodeBallots reads what came, by rank; an op that its backend refused has no
// entries. What cannot be read counts as one that is not ok: its sender is alive, and
// not one of us.
func decodeBallots(entries []pg.BallotEntry, own quorum.Ballot) []*quorum.Ballot {
	ballots := make([]*quorum.Ballot, len(entries))
	for i, e := range entries {
		if !e.Here {
			continue
		}
		b, err := wire.DecodeBallot(e.Payload)
		if err != nil {
			b = quorum.Ballot{QuorumID: own.QuorumID, Round: own.Round}
		}
		b.Digest = quorum.Digest{Valid: e.Digest.Valid, Sum: e.Digest.Sum}
		ballots[i] = &b
	}
	return ballots
}
