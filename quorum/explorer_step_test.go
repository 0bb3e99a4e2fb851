package quorum_test

import (
	"fmt"
	"slices"

	"github.com/skerry-ft/skerry/quorum"
)

// A step of the explorer is one move of its members: every pattern of failed
// and odd reductions and of lost ballots goes through the real JudgeBallots
// and the real Tally, and what is left are the distinct results. That loses
// nothing: within a step members meet only through ballots, and a crash is a
// move of its own.

// result is what one member has at the end of a step.
type result uint8

const (
	resCommit result = iota
	resPrepared
	resRefused
	resBehind // could not heal: nothing to commit, nothing refused, wants a change
)

// memberResult is a result and which of the member's ranks reduced oddly (bit
// g for group rank g).
type memberResult struct {
	Res result
	Odd uint8
}

// outcome is the result of a step, by replica rank.
type outcome []memberResult

func (o outcome) allCommit() bool {
	return !slices.ContainsFunc(o, func(m memberResult) bool {
		return m.Res != resCommit && m.Res != resBehind
	})
}

func (o outcome) odd() bool {
	return slices.ContainsFunc(o, func(m memberResult) bool { return m.Odd != 0 })
}

// mechanics are the functions under test that a mutant may replace.
type mechanics struct {
	judge func(own int, b []*quorum.Ballot) quorum.Verdict
	tally func(votes []quorum.RankVote) quorum.TallyResult
}

func realMechanics() mechanics {
	return mechanics{judge: quorum.JudgeBallots, tally: realTally}
}

func realTally(votes []quorum.RankVote) quorum.TallyResult {
	t := quorum.NewTally(len(votes))
	for _, v := range votes {
		if err := t.Vote(v); err != nil {
			panic(fmt.Sprintf("explorer: tally refused %+v: %v", v, err))
		}
	}
	return t.Result()
}

// The digests of one rank's reduction, as everybody should have it, and odd.
const (
	goodSum = 100
	oddSum  = 900
)

// rankState is how far one rank got by itself.
type rankState uint8

const (
	rankOK rankState = iota
	rankOdd
	rankFailed // balloted not-ok, or never balloted
	rankStates
)

// rankOutcome is one group rank's votes, by replica rank.
type rankOutcome []rankVoteOf

type rankVoteOf struct {
	Vote quorum.Vote
	Odd  bool
}

// rankOutcomes runs every pattern for one group rank of n members and returns
// the distinct results. Bit i of unhealed: member i could not heal.
func rankOutcomes(mech mechanics, n int, unhealed uint8) []rankOutcome {
	seen := map[string]rankOutcome{}
	states := make([]rankState, n)
	for s := range pow(int(rankStates), n) {
		for i := range states {
			states[i] = rankState(s / pow(int(rankStates), i) % int(rankStates))
		}
		for lost := range 1 << (n * n) {
			if hasOwnLoss(lost, n) {
				continue
			}
			o := rankPattern(mech, states, unhealed, lost)
			seen[fmt.Sprint(o)] = o
		}
	}
	return sorted(seen)
}

// hasOwnLoss says that a rank misses its own ballot, which cannot be.
func hasOwnLoss(lost, n int) bool {
	for i := range n {
		if lost>>(i*n+i)&1 == 1 {
			return true
		}
	}
	return false
}

// rankPattern judges one pattern: bit i*n+j of lost says that i's ballot did
// not reach j.
func rankPattern(mech mechanics, states []rankState, unhealed uint8, lost int) rankOutcome {
	n := len(states)
	out := make(rankOutcome, n)
	for j := range n {
		ballots := make([]*quorum.Ballot, n)
		for i, st := range states {
			if lost>>(i*n+j)&1 == 0 {
				ballots[i] = ballotOf(st, unhealed>>i&1 == 1)
			}
		}
		v := mech.judge(j, ballots)
		out[j] = rankVoteOf{Vote: v.Vote, Odd: states[j] == rankOdd}
		if states[j] == rankFailed && v.Vote != quorum.VoteNo {
			panic(fmt.Sprintf("explorer: a rank that failed votes %v: %+v", v.Vote, v))
		}
	}
	return out
}

func ballotOf(st rankState, unhealed bool) *quorum.Ballot {
	b := &quorum.Ballot{QuorumID: 1, Round: 1, Position: quorum.Position{Step: 1}}
	b.OK, b.Reduced = st != rankFailed, st != rankFailed
	b.Healed, b.Unhealed, b.ChangeWanted = false, unhealed, unhealed
	b.Digest = quorum.Digest{Valid: true, Sum: goodSum}
	if st == rankOdd {
		b.Digest.Sum = oddSum
	}
	return b
}

// outcomes combines the results of all group ranks through the tally. It
// returns an error if two members contradict each other: one commits while
// another one may discard (C2, C5).
func outcomes(mech mechanics, n, ranks int, unhealed uint8) ([]outcome, error) {
	per := rankOutcomes(mech, n, unhealed)
	seen := map[string]outcome{}
	pick := make([]rankOutcome, ranks)
	for c := range pow(len(per), ranks) {
		for g := range ranks {
			pick[g] = per[c/pow(len(per), g)%len(per)]
		}
		o := combine(mech, pick)
		if err := checkOutcome(o); err != nil {
			return nil, fmt.Errorf("%w: votes by group rank %v, results %v", err, pick, o)
		}
		seen[fmt.Sprint(o)] = o
	}
	return sorted(seen), nil
}

// combine tallies each member's votes.
func combine(mech mechanics, pick []rankOutcome) outcome {
	out := make(outcome, len(pick[0]))
	for i := range out {
		votes := make([]quorum.RankVote, len(pick))
		for g, o := range pick {
			votes[g] = quorum.RankVote{
				GroupRank: g, QuorumID: 1, Round: 1, Step: 2, Vote: o[i].Vote,
				Broken: o[i].Vote == quorum.VoteNo || o[i].Vote == quorum.VotePrepared,
				Digest: quorum.Digest{Valid: true, Sum: goodSum},
			}
			if o[i].Odd {
				votes[g].Digest.Sum = oddSum
				out[i].Odd |= 1 << g
			}
		}
		out[i].Res = resultOf(mech.tally(votes).Outcome)
		if out[i].Res != resCommit && out[i].Res != resPrepared {
			out[i].Odd = 0 // its bytes are gone
		}
	}
	return out
}

// resultOf names the member's result.
func resultOf(t quorum.TallyOutcome) result {
	switch t {
	case quorum.TallyCommit:
		return resCommit
	case quorum.TallyAbort:
		return resRefused
	case quorum.TallyPrepared:
		return resPrepared
	case quorum.TallyBehind:
		return resBehind
	}
	panic(fmt.Sprintf("explorer: all ranks voted and the tally is %v", t))
}

// checkOutcome checks what holds beside a commit: nobody refused, and all that
// promised promised the same bytes.
func checkOutcome(o outcome) error {
	for i, a := range o {
		if a.Res != resCommit {
			continue
		}
		for j, b := range o {
			if b.Res == resRefused {
				return fmt.Errorf("C5: member %d committed what member %d may discard", i, j)
			}
			if (b.Res == resCommit || b.Res == resPrepared) && a.Odd != b.Odd {
				return fmt.Errorf("C1: members %d and %d committed other bytes", i, j)
			}
		}
	}
	return nil
}

func pow(b, e int) int {
	out := 1
	for range e {
		out *= b
	}
	return out
}

// sorted returns the values in the order of their keys.
func sorted[V any](m map[string]V) []V {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	out := make([]V, 0, len(m))
	for _, k := range keys {
		out = append(out, m[k])
	}
	return out
}
