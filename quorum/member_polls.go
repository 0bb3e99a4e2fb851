package quorum

import "slices"

// Polls gathers the votes of a replica's ranks, attempt by attempt: what the
// whole replica does with a step. An attempt is decided once all ranks have voted,
// or when one of them says that it waits no longer; the decision is one, and is
// repeated to a rank that asks late (C3). It is owned by one goroutine.
//
// A rank whose call broke has not said so: it makes the call again, or is gone.
// (Were the attempt decided then, without a vote that is on its way, a connection
// that is reset would leave a healthy step prepared, and cost a settlement.)
//
// An attempt is one try at a step, from StartQuorum to the end of ShouldCommit. All
// ranks of a replica count them alike, for a vote ends one for all. A step may take
// several attempts in one quorum and round: a no for which all ballots came lets
// the quorum stand.
type Polls struct {
	size     int
	current  *poll    // the open one, or the last decided one
	previous *poll    // for a rank whose answer was lost, while others went on
	voted    []uint64 // by group rank: the newest attempt that it voted on
}

// poll is one attempt's votes.
type poll struct {
	attempt uint64
	votes   []*RankVote // by group rank
	decided bool
	result  TallyResult
}

// NewPolls makes the polls of a replica of so many ranks, 1 to MaxGroupWorldSize;
// any other size is the caller's error and panics.
func NewPolls(groupWorldSize int) *Polls {
	NewTally(groupWorldSize) // checks
	return &Polls{size: groupWorldSize, voted: make([]uint64, groupWorldSize)}
}

// Vote counts a rank's vote. One on a later attempt than the open one says that
// the rank has abandoned that: it is decided without its vote. One on an attempt
// that is past counts for nothing: it was decided without it. Errors: ErrInvalid.
func (p *Polls) Vote(v RankVote) error {
	if v.GroupRank < 0 || v.GroupRank >= p.size {
		return invalidf("group rank = %d, want 0 to %d", v.GroupRank, p.size-1)
	}
	p.voted[v.GroupRank] = max(p.voted[v.GroupRank], v.Attempt)
	if at := p.find(v.Attempt); at != nil && !at.decided {
		at.votes[v.GroupRank] = &v
		at.decide(v.Last)
	}
	return nil
}

// Result is the decision on an attempt; ok is false while it is open. One that is
// not known any more was decided without the rank that asks, which hung meanwhile,
// or was started again: as far as that rank is told, nobody has refused it.
func (p *Polls) Result(attempt uint64) (r TallyResult, ok bool) {
	switch at := p.known(attempt); {
	case at != nil:
		return at.result, at.decided
	case p.past(attempt):
		return TallyResult{Outcome: TallyPrepared}, true
	}
	return TallyResult{}, false
}

// ResultFor is Result for the rank that voted v. An abort binds who has promised only
// if a rank refused that very step. An attempt may be decided without a rank, before
// there is a quorum, and this rank begin it in the next one: what it promised there is
// another step than the one that was refused, and others may have committed it. (The
// trainer of rank 0 did not wait for a quorum. It ended its attempt, and gave its ballot
// in the next one; rank 1 gave its own in the first, in the same quorum. All others
// committed, and rank 1 was told to discard: its replica said that it had refused.)
func (p *Polls) ResultFor(v RankVote) (r TallyResult, ok bool) {
	r, ok = p.Result(v.Attempt)
	promised := v.Vote == VoteYes || v.Vote == VotePrepared
	if ok && promised && r.Outcome == TallyAbort && !p.known(v.Attempt).refuses(v) {
		r.Outcome, r.Stands = TallyPrepared, false
	}
	return r, ok
}

// refuses says that a rank refused the step of v.
func (at *poll) refuses(v RankVote) bool {
	return slices.ContainsFunc(at.votes, func(o *RankVote) bool {
		return o != nil && o.Vote == VoteNo && !o.Void && o.key() == v.key()
	})
}

func (p *Polls) past(attempt uint64) bool { return p.current != nil && attempt < p.current.attempt }

// Awaits says whether other ranks have voted on the attempt for which a rank reports,
// or on a later one, and this one has not: they do not report before it has, and a
// report of its would wait for theirs. So it votes first, and what it votes on is over.
// next is the attempt that it begins then: the one in which the others are. (Were ranks
// in different attempts, each would wait for the other's votes for ever: one hung
// while the other tried again and again.) A report outlives the attempt in which it was
// made, so the attempt which it names may be one on which the rank has voted. (Then it
// was not asked for its vote on the next one, which the others had ended; all were
// answered, and it gave its ballot in that one, and they in the one after it.)
//
// One that says prepared does not: its rank stays in that attempt until the step is
// settled, or takes the report back as it gives up. What it waits for is the answer to
// this very report. (Its sibling had given up and tried again. It was told to vote first,
// which it does after the settlement, and its replica did not join before its deadline.)
func (p *Polls) Awaits(r RankReport) (next uint64, awaits bool) {
	if p.current == nil || r.Attempt > p.current.attempt {
		return p.Next(r.GroupRank), false
	}
	until := p.current.attempt
	if r.Fact.Kind == Prepared {
		until = r.Attempt
	}
	return p.Next(r.GroupRank), p.voted[r.GroupRank] < until
}

// Restarted says whether a rank that reports for an attempt has voted on a later
// one: it was started again alone, and counts from 1. next is as for Awaits.
func (p *Polls) Restarted(rank int, attempt uint64) (next uint64, restarted bool) {
	return p.Next(rank), attempt < p.voted[rank]
}

// Next is the attempt on which a rank can vote: the open one, if it has not. Every
// answer tells it, so that ranks which were apart begin the next attempt together.
func (p *Polls) Next(rank int) uint64 {
	switch {
	case p.current == nil:
		return 1
	case p.current.decided || p.current.votes[rank] != nil:
		return p.current.attempt + 1
	}
	return p.current.attempt
}

func (p *Polls) known(attempt uint64) *poll {
	for _, at := range [...]*poll{p.current, p.previous} {
		if at != nil && at.attempt == attempt {
			return at
		}
	}
	return nil
}

// find returns the poll of an attempt, and opens it if it is a later one; nil if it
// is not known any more.
func (p *Polls) find(attempt uint64) *poll {
	if at := p.known(attempt); at != nil || p.past(attempt) {
		return at
	}
	if p.current != nil && !p.current.decided {
		p.current.decide(true)
	}
	p.previous = p.current
	p.current = &poll{attempt: attempt, votes: make([]*RankVote, p.size)}
	return p.current
}

// decide decides the attempt if all votes are there, or if it must.
//
// A missing vote may be a no, so nothing is committed without it; with a no among
// the others the step is discarded, otherwise they are prepared (were it discarded,
// a replica whose missing rank saw all ballots would break its promise). A void one
// is of a rank that lost its operations with a group that is gone, and has given no
// ballot: nobody else knows of the attempt, so all ranks discard it, and the quorum
// stands (were it to fall, the next one would be void too, and so on). Nor does the
// replica ask for another one then: the others have not ended an attempt, so they do
// not ask, and it would wait for them while they wait for its next ballot.
//
//	all have voted                            as the Tally counts them
//	all, and one of them void                 abort, and the quorum stands
//	one waits no longer, a no among the rest  abort
//	one waits no longer, no no                prepared: the settlement decides
func (at *poll) decide(must bool) {
	var wanted, void, no, missing bool
	for _, v := range at.votes {
		if v == nil {
			missing = true
			continue
		}
		wanted = wanted || v.ChangeWanted
		void = void || v.Void
		no = no || v.Vote == VoteNo
	}
	switch {
	case missing && !must:
		return // its call may come yet (§2.5)
	case missing && no: // C2: one no is enough, whatever the missing rank saw
		at.result = TallyResult{Outcome: TallyAbort, ChangeWanted: wanted}
	case missing:
		at.result = TallyResult{Outcome: TallyPrepared, ChangeWanted: wanted}
	case void:
		at.result = TallyResult{Outcome: TallyAbort, Stands: true}
	default:
		at.result = at.count(wanted)
	}
	at.decided = true
}

// count counts a full set of votes. Ranks that voted in different quorums or for
// different steps have no step in common.
func (at *poll) count(wanted bool) TallyResult {
	tally := NewTally(len(at.votes))
	for _, v := range at.votes {
		if tally.Vote(*v) != nil {
			return TallyResult{Outcome: TallyAbort, ChangeWanted: wanted}
		}
	}
	if r := tally.Result(); r.Outcome != TallyPending {
		return r
	}
	return TallyResult{Outcome: TallyAbort, ChangeWanted: wanted}
}
