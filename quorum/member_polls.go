package quorum

import "fmt"

// Polls gathers the votes of a replica's ranks, attempt by attempt: what the
// whole replica does with a step. An attempt is decided once all ranks have voted,
// or when it is said that no more votes come; the decision is one, and is repeated
// to a rank that asks late (C3). It is owned by one goroutine.
//
// An attempt is one try at a step, from StartQuorum to the end of ShouldCommit. All
// ranks of a replica count them alike, for a vote ends one for all. A step may take
// several attempts in one quorum and round: a no for which all ballots came lets
// the quorum stand.
type Polls struct {
	size     int
	current  *poll // the open one, or the last decided one
	previous *poll // for a rank whose answer was lost, while others went on
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
	return &Polls{size: groupWorldSize}
}

// Vote counts a rank's vote. One on a later attempt than the open one says that
// the rank has abandoned that: it is decided without its vote. Errors:
// ErrStaleVote for an attempt that is past, of a rank that was started again
// alone; ErrInvalid.
func (p *Polls) Vote(v RankVote) error {
	if v.GroupRank < 0 || v.GroupRank >= p.size {
		return invalidf("group rank = %d, want 0 to %d", v.GroupRank, p.size-1)
	}
	at, err := p.find(v.Attempt)
	if err != nil {
		return err
	}
	if !at.decided {
		at.votes[v.GroupRank] = &v
		at.decide(false)
	}
	return nil
}

// End decides an attempt without the votes that are missing. Nobody has committed,
// for a commit needs them all; whether others were told of a commit the settlement
// may have to say.
func (p *Polls) End(attempt uint64) {
	if at := p.known(attempt); at != nil && !at.decided {
		at.decide(true)
	}
}

// Result is the decision on an attempt; ok is false while it is open. Errors:
// ErrStaleVote if it is not known any more.
func (p *Polls) Result(attempt uint64) (r TallyResult, ok bool, err error) {
	switch at := p.known(attempt); {
	case at != nil:
		return at.result, at.decided, nil
	case p.current != nil && attempt < p.current.attempt:
		return TallyResult{}, false, p.stale(attempt)
	}
	return TallyResult{}, false, nil
}

func (p *Polls) stale(attempt uint64) error {
	return fmt.Errorf("%w: attempt %d, the replica is at %d: restart all its ranks together",
		ErrStaleVote, attempt, p.current.attempt)
}

// Awaits says whether other ranks have voted on an attempt, and this one has not:
// they do not report before it has, and a report of its would wait for theirs.
func (p *Polls) Awaits(rank int, attempt uint64) bool {
	return p.current != nil && p.current.attempt == attempt && p.current.votes[rank] == nil
}

func (p *Polls) known(attempt uint64) *poll {
	for _, at := range [...]*poll{p.current, p.previous} {
		if at != nil && at.attempt == attempt {
			return at
		}
	}
	return nil
}

// find returns the poll of an attempt, and opens it if it is a later one.
func (p *Polls) find(attempt uint64) (*poll, error) {
	if at := p.known(attempt); at != nil {
		return at, nil
	}
	if p.current != nil {
		if attempt < p.current.attempt {
			return nil, p.stale(attempt)
		}
		if !p.current.decided {
			p.current.decide(true)
		}
	}
	p.previous = p.current
	p.current = &poll{attempt: attempt, votes: make([]*RankVote, p.size)}
	return p.current, nil
}

// decide decides the attempt if all votes are there, or if it must.
//
// A missing vote may be a no, so nothing is committed without it; with a no among
// the others the step is discarded, otherwise they are prepared (were it discarded,
// a replica whose missing rank saw all ballots would break its promise). A void one
// is of a rank that lost its operations with a group that is gone, and has given no
// ballot: nobody else knows of the attempt, so all ranks discard it, and the quorum
// stands (were it to fall, the next one would be void too, and so on).
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
		return
	case missing && no:
		at.result = TallyResult{Outcome: TallyAbort, ChangeWanted: wanted}
	case missing:
		at.result = TallyResult{Outcome: TallyPrepared, ChangeWanted: wanted}
	case void:
		at.result = TallyResult{Outcome: TallyAbort, ChangeWanted: wanted, Stands: true}
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
