package manager

import (
	"context"
	"fmt"
	"time"

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
// works, and judges what came. After an ok ballot this rank discards nothing by
// itself.
func (m *Manager) exchange(ctx context.Context, unhealed bool) balloted {
	m.mu.Lock()
	a, q := &m.mu.attempt, m.mu.quorum
	if b := m.withoutBallotLocked(); b.vote.Void || b.vote.Broken {
		m.mu.Unlock()
		return b
	}
	b := balloted{vote: m.voteLocked()}
	own := quorum.Ballot{
		QuorumID: q.ID, Round: q.Round, Position: m.mu.position,
		OK:           a.err == nil && !unhealed && m.mu.assign.Divisor >= m.cfg.MinReplicas,
		Reduced:      a.err == nil,
		Healed:       a.healed,
		Unhealed:     unhealed,
		ChangeWanted: m.mu.wanted != "" || unhealed,
	}
	b.cause = a.err
	if b.cause == nil && !own.OK && !unhealed {
		b.cause = fmt.Errorf("%w: %d, want %d", errTooFew, m.mu.assign.Divisor, m.cfg.MinReplicas)
	}
	rank := m.mu.assign.ReplicaRank
	m.mu.Unlock()
	if err := m.backend.Err(); err != nil {
		b.vote.Broken = true
		b.cause = err
		m.accuseFirst(err, q.ID)
		m.fall(q.ID, err)
		return b
	}
	return m.ballot(ctx, b, own, rank)
}

// voteLocked is a vote on the step under way that says no.
func (m *Manager) voteLocked() quorum.RankVote {
	v := quorum.RankVote{Attempt: m.mu.attempt.number}
	v.GroupRank = m.cfg.GroupRank
	v.Step = m.mu.position.Step + 1
	if q := m.mu.quorum; q != nil {
		v.QuorumID, v.Round = q.ID, q.Round
	}
	return v
}

// withoutBallotLocked is the vote on an attempt for which no ballot can be
// given; it is neither void nor broken if one can.
func (m *Manager) withoutBallotLocked() balloted {
	a := &m.mu.attempt
	b := balloted{vote: m.voteLocked(), cause: a.err}
	usable := m.mu.quorum != nil && m.mu.standing && m.mu.ready && m.mu.request == nil
	switch {
	case a.err != nil && a.opsHere == 0 && (a.void || m.cfg.GroupWorldSize == 1 && (a.ops > 0 || a.late)):
		// Its operations went into a group that is gone. The others of this
		// group know nothing of the attempt: they wait for the next one, and
		// so does the quorum, which may be on its way still. A vote in it would
		// be one on the next attempt.
		b.vote.Void = true
	case !usable:
		b.vote.Broken = true
		if b.cause == nil {
			b.cause = errFallen
		}
	}
	return b
}

// ballot exchanges own for the others' ballots.
//
// When ctx ends the group is aborted. What the ballots that came mean, they mean
// all the same: if all of them are there, the others commit.
func (m *Manager) ballot(ctx context.Context, b balloted, own quorum.Ballot, rank int) balloted {
	m.mu.Lock()
	m.mu.attempt.sealed = true
	m.mu.stats.Ballots++
	if own.OK {
		m.mu.claim.Promise(b.vote.Step, own.QuorumID)
	}
	patience := m.opTimeoutLocked()
	epoch := m.mu.configured
	m.mu.Unlock()
	op := &pg.Op{Kind: pg.KindBallot, Ballot: wire.EncodeBallot(own), Deadline: time.Now().Add(patience)}
	m.balloting.Add(1)
	defer m.balloting.Add(-1)
	w := m.backend.Submit(op)
	_ = w.Wait(ctx) // it helps, and what became of the op is looked at below
	if !w.Finished() {
		m.managed.Abort(epoch, context.Cause(ctx))
		<-w.Done() // the abort sees to it
	}
	ballots := decodeBallots(op.Ballots, own, rank)
	digest := ballots[rank].Digest
	judged := quorum.JudgeBallots(rank, ballots)
	m.mu.Lock()
	m.mu.ballots++
	judged = m.mu.claim.Judged(judged, b.vote.Step, own.QuorumID, m.cfg.GroupRank, digest)
	m.mu.Unlock()
	b.vote.Vote, b.vote.Digest, b.vote.Broken = judged.Vote, digest, judged.Broken
	b.vote.ChangeWanted = b.vote.ChangeWanted || judged.ChangeWanted
	if err := w.Err(); err != nil {
		b.vote.Broken = true
		m.accuseFirst(err, own.QuorumID)
		if b.cause == nil {
			b.cause = err
		}
	}
	if judged.Vote != quorum.VoteYes && b.cause == nil {
		b.cause = fmt.Errorf("ballot: %s", judged.Reason)
	}
	if len(judged.Odd) > 0 {
		m.log.Error().Ints("ranks", judged.Odd).Int64(logkey.Step, b.vote.Step).Msg("reduced bytes differed")
	}
	return b
}

// decodeBallots reads what came, by rank. What cannot be read counts as one
// that is not ok: its sender is alive, and not one of us.
func decodeBallots(entries []pg.BallotEntry, own quorum.Ballot, rank int) []*quorum.Ballot {
	ballots := make([]*quorum.Ballot, max(len(entries), rank+1))
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
	if ballots[rank] == nil {
		ballots[rank] = &own
	}
	return ballots
}
