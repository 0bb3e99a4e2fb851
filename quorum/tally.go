package quorum

import "fmt"

// Vote is one rank's word on one step.
type Vote uint8

// The votes.
const (
	VoteNo       Vote = iota // some ballot was not ok, or two differ
	VotePrepared             // this rank's ballot was ok, the ballots are incomplete
	VoteYes                  // all ballots came, ok and equal
	VoteBehind               // this rank could not heal: it neither commits nor refuses
)

// RankVote is a group rank's vote to its replica's tally.
type RankVote struct {
	GroupRank    int
	QuorumID     int64
	Round        int64
	Step         int64 // the step that it would become
	Vote         Vote
	ChangeWanted bool
	Broken       bool // this rank's group is broken: the quorum falls, whatever the vote
	Digest       Digest

	Attempt uint64 // counts the rank's tries at steps, see Polls
	Void    bool   // Attempt is void: no ballot was given, and no other replica has met its operations
	Last    bool   // the rank waits no longer: see Polls
}

// TallyOutcome is what a replica's votes came to.
type TallyOutcome uint8

// The outcomes of a tally.
const (
	TallyPending  TallyOutcome = iota
	TallyCommit                // all ranks voted yes
	TallyAbort                 // a rank voted no
	TallyPrepared              // no rank voted no, some are prepared: the settlement decides, for all ranks
	TallyBehind                // no rank voted no, some could not heal: nothing is committed and nothing refused
)

// TallyResult is a tally's word to all its ranks.
type TallyResult struct {
	Outcome      TallyOutcome
	ChangeWanted bool     // a rank or a ballot wants a change: join with JoinAsk after a commit
	Stands       bool     // the quorum stands; otherwise all ranks join with JoinFall
	Digests      []Digest // by group rank, unless pending
}

// Decided says that the tally has decided.
func (r *TallyResult) Decided() bool { return r.Outcome != TallyPending }

// Commits says that it has, for a commit.
func (r *TallyResult) Commits() bool { return r.Outcome == TallyCommit }

// Tally counts one replica's votes, one step at a time. The first vote for a
// new (quorum, round, step) starts a new count; the decision on the last one is
// kept and repeated to late callers (C3). It is owned by one goroutine.
type Tally struct {
	size    int
	key     voteKey     // what is counted now
	votes   []RankVote  // by group rank; nil: none was ever counted
	voted   []bool      // by group rank
	missing int         // votes that have not come
	result  TallyResult // once decided it stays until a later key comes (C3)
}

// voteKey is what a vote is about. Later ones compare higher: first the quorum, for a new one ends
// what was tried in the old one; then the round; then the step.
type voteKey struct{ quorumID, round, step int64 }

func (v *RankVote) key() voteKey { return voteKey{v.QuorumID, v.Round, v.Step} }

func (k voteKey) compare(o voteKey) int {
	for _, d := range [...]int64{k.quorumID - o.quorumID, k.round - o.round, k.step - o.step} {
		if d < 0 {
			return -1
		}
		if d > 0 {
			return 1
		}
	}
	return 0
}

// NewTally makes a tally for a replica of so many ranks, 1 to MaxGroupWorldSize;
// any other size is the caller's error and panics.
func NewTally(groupWorldSize int) *Tally {
	if groupWorldSize < 1 || groupWorldSize > MaxGroupWorldSize {
		panic(fmt.Sprintf("quorum: NewTally(%d), want 1 to %d", groupWorldSize, MaxGroupWorldSize))
	}
	return &Tally{size: groupWorldSize}
}

// Vote counts v. A rank that repeats its vote is fine (its call broke); one that changes
// it is not, for its siblings may have been told (C3): one would commit by the first
// vote, another discard by the second. Of a replica of two ranks, at step 5 of quorum 3:
//
//	rank 0 yes                   pending: rank 1 may have seen a no
//	rank 1 yes                   commit
//	rank 1 no                    abort, and the quorum stands
//	rank 1 no, its group broken  abort at once, also before rank 0 has voted: the quorum falls
//	rank 0 yes, again            the same result once more
//
// Errors: ErrStaleVote for an older quorum, round or step; ErrInvalid.
func (t *Tally) Vote(v RankVote) error {
	if v.GroupRank < 0 || v.GroupRank >= t.size {
		return invalidf("group rank = %d, want 0 to %d", v.GroupRank, t.size-1)
	}
	// Votes come from the replica's other processes. A value that no rule knows would be a yes to
	// worse, which asks for the others.
	if v.Vote > VoteBehind {
		return invalidf("vote = %d, want at most %d", v.Vote, VoteBehind)
	}
	for _, n := range [...]int64{v.QuorumID, v.Round, v.Step} {
		if err := validateNumber("vote's quorum id, round or step", n); err != nil {
			return err
		}
	}
	key := v.key()
	c := key.compare(t.key)
	// The siblings have gone on: the older count's late callers are told by Polls.
	if t.votes == nil || c > 0 {
		t.start(key)
	} else if c < 0 {
		return fmt.Errorf("%w: quorum %d round %d step %d, now at %d round %d step %d", ErrStaleVote,
			v.QuorumID, v.Round, v.Step, t.key.quorumID, t.key.round, t.key.step)
	}
	// Its call broke, and it does not know whether its vote came.
	if t.voted[v.GroupRank] {
		if t.votes[v.GroupRank] != v {
			return invalidf("group rank %d changed its vote on step %d", v.GroupRank, v.Step)
		}
		return nil
	}
	t.votes[v.GroupRank], t.voted[v.GroupRank] = v, true
	t.missing--
	t.count()
	return nil
}

func (t *Tally) start(key voteKey) {
	t.key = key
	t.votes = make([]RankVote, t.size)
	t.voted = make([]bool, t.size)
	t.missing = t.size
	t.result = TallyResult{}
}

// count decides when all ranks have voted, or at a no of a rank whose group is
// broken: then neither the outcome nor the quorum's fall can change any more. C2:
// only a yes of every rank commits.
//
// Prepared means that ballots were lost: the group's links or its members are
// not well, and the quorum falls. A no for which all ballots came ends the step
// and nothing else: every member knows that it is discarded, and tries it again
// in the same quorum, with or without a lighthouse. (Were it to fall, one NaN
// would stop a job whose lighthouse is away, and cost a reconfiguration in any
// other.) A member that is behind lets the quorum stand and wants a change.
//
//	all yes                              commit     the quorum stands
//	a no                                 abort      stands, unless a vote is prepared, or broken
//	none of these, one behind            behind     likewise, and a change is wanted
//	none of these, one prepared          prepared   falls: the settlement decides
func (t *Tally) count() {
	// C3: decided by a no, it stays so whatever the votes that come behind it say.
	if t.result.Outcome != TallyPending {
		return
	}
	r := TallyResult{Outcome: TallyCommit, Stands: true, Digests: make([]Digest, t.size)}
	for i, v := range t.votes {
		// A missing vote is no vote. Taken for its zero value it would be a no.
		if !t.voted[i] {
			continue
		}
		// By group rank, missing ones too: facts of two replicas are compared rank by rank.
		r.Digests[i] = v.Digest
		r.ChangeWanted = r.ChangeWanted || v.ChangeWanted || v.Vote == VoteBehind
		r.Stands = r.Stands && !v.Broken && v.Vote != VotePrepared
		r.Outcome = worse(r.Outcome, v.Vote)
	}
	// §2.5: with a vote missing a commit may still become none, and a quorum that stands may
	// fall.
	if t.missing > 0 && (r.Outcome != TallyAbort || r.Stands) {
		return
	}
	t.result = r
}

// worse combines an outcome with one more vote: no, behind, prepared, yes (§2.5). A no comes
// first, for beside it no member can have committed. Behind comes before prepared: its
// rank has not healed, so this replica cannot roll the step forward whatever is settled.
func worse(o TallyOutcome, v Vote) TallyOutcome {
	switch {
	case o == TallyAbort || v == VoteNo:
		return TallyAbort
	case o == TallyBehind || v == VoteBehind:
		return TallyBehind
	case o == TallyPrepared || v == VotePrepared:
		return TallyPrepared
	}
	return TallyCommit
}

// Result is the decision on the last step voted on, TallyPending before any. It
// stays the same until a vote for a later one comes.
func (t *Tally) Result() TallyResult {
	return t.result
}
