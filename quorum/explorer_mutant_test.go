package quorum_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/quorum"
)

// mangle is one mutant: a fault put between the members and the code under
// test. Its zero value changes nothing.
type mangle struct {
	stepOnly        bool // positions are compared by their step alone
	onJoin          func(*quorum.Join)
	onAnswer        func(w *world, last, q *quorum.Quorum)
	onLedger        func(*quorum.Ledger) // what a new leader finds
	forms           []quorum.ReasonCode  // reasons not to form that are overridden
	takesWithdrawn  bool                 // answers to withdrawn joins are taken
	breaksPromise   bool                 // a prepared member discards by itself
	unhealedRefuses bool                 // an unhealed member's fact is a refusal
	keepsClaim      bool                 // a claim that was given up is still sent as prepared
}

// position is what a member states: beats, hellos and joins.
func (m *mangle) position(p *quorum.Position) {
	if m.stepOnly {
		p.QuorumID = 0
	}
}

// same says that two positions are equal, as the mutant knows them.
func (m *mangle) same(a, b quorum.Position) bool {
	m.position(&a)
	m.position(&b)
	return a.Step == b.Step && a.QuorumID == b.QuorumID
}

// known is an answer as the mutant reads it who stands at a position.
func (m *mangle) known(q *quorum.Quorum, at quorum.Position) *quorum.Quorum {
	if !m.stepOnly {
		return q
	}
	out := *q
	out.Members = slices.Clone(q.Members)
	for i := range out.Members {
		if p := &out.Members[i].Position; p.Step == at.Step && p.QuorumID == 0 {
			p.QuorumID, p.Cluster = at.QuorumID, at.Cluster
		}
	}
	return &out
}

func (m *mangle) join(j *quorum.Join, r *replica) {
	if m.unhealedRefuses && j.Fact.Kind == quorum.GaveUp {
		j.Fact = quorum.Fact{Kind: quorum.Refused, Step: r.Was.Step, QuorumID: r.Was.QuorumID}
	}
	m.position(&j.Member.Position)
	if m.onJoin != nil {
		m.onJoin(j)
	}
}

func (m *mangle) answer(w *world, last, q *quorum.Quorum) {
	if m.onAnswer != nil {
		m.onAnswer(w, last, q)
	}
}

// overrides forms the quorum of all who have joined, though the machine says
// that it is not time: through the ledger, as if another leader had.
func (x *explorer) overrides(w *world, d quorum.Decision) (bool, error) {
	if !slices.Contains(x.mangle.forms, d.Reason.Code) || len(w.LHJoins) == 0 || w.Left.Quorums == 0 {
		return false, nil
	}
	last := w.LH.Last()
	l := x.ledger(w)
	f := quorum.Formed{Term: l.Term, Client: quorum.KindSkerry}
	q := quorum.Quorum{Cluster: "x", Job: "default", ID: l.HighestID + 1, Round: 1}
	if last != nil {
		f.FollowsID, f.FollowsRound, q.Round = last.ID, last.Round, last.Round+1
	}
	for _, id := range sortedIDs(w.LHJoins) {
		q.Members = append(q.Members, w.LHJoins[id].Member)
	}
	top := maxPosition(&q)
	for _, m := range q.Members {
		if m.Sync || m.Position == top {
			q.Participants = append(q.Participants, m.ReplicaID)
		}
	}
	f.Quorum = q
	if err := l.ApplyFormed(f); err != nil {
		return false, err
	}
	w.LH = quorum.New(w.Now, w.Cfg, l)
	w.Formed++
	w.Left.Quorums--
	if err := x.checkFormed(w, last, &q, quorum.Decision{Changed: true, Reason: d.Reason}); err != nil {
		return false, err
	}
	return true, x.tell(w, &q)
}

// tell answers all members of an overriding quorum, and opens the sessions
// with the new leader.
func (x *explorer) tell(w *world, q *quorum.Quorum) error {
	for i := range w.Reps {
		r := &w.Reps[i]
		j, joined := w.LHJoins[r.ID]
		if joined && r.Up && r.Conn {
			r.Inbox = append(r.Inbox, message{Answer: q, Number: j.Number})
		}
		delete(w.LHJoins, r.ID)
		if r.Up && r.Conn {
			held := r.Join
			r.Join = nil // the answer is on its way
			err := x.hello(w, r)
			if r.Join = held; err != nil {
				return err
			}
		}
	}
	return nil
}

func sortedIDs[V any](m map[quorum.ReplicaID]V) []quorum.ReplicaID {
	out := make([]quorum.ReplicaID, 0, len(m))
	for id := range m {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}

// mutant is a fault and the world in which it must be found.
type mutant struct {
	name   string
	mech   func(*mechanics)
	mangle mangle
	budget budget
	ranks  int
	join   time.Duration                      // join timeout; 0: as ever
	script func(x *explorer, w *world) []move // moves that lead near the fault; nil: none
	from   uint64                             // the first seed: a little below one that is known to find it
	want   []string                           // the rules that may be named
	deep   bool                               // it takes seconds to find
}

// prepares are the faults that leave prepared members behind.
var prepares = budget{Quorums: 2, Breaks: 1, GiveUps: 1, Steps: 2}

func mutants() []mutant {
	return []mutant{
		{name: "skips the settlement", mangle: mangle{onAnswer: unsettle}, budget: prepares, want: []string{"C1", "C5"}},
		{name: "reuses an id", mangle: mangle{onAnswer: reuseID}, budget: prepares, want: []string{"Q1", "Q2", "C1", "D13"}},
		{
			name:   "ignores holders",
			mangle: mangle{forms: []quorum.ReasonCode{quorum.ReasonHolder}},
			budget: budget{Quorums: 2, Crashes: 2, Restarts: 2, Steps: 2}, want: []string{"Q10"}, from: 200,
		},
		{
			name:   "forgets the majority",
			mangle: mangle{forms: []quorum.ReasonCode{quorum.ReasonNoMajority}},
			budget: budget{Quorums: 2, Crashes: 1, Breaks: 1, Steps: 2}, want: []string{"Q5"},
		},
		{
			name:   "lets joiners outvote a quorum that stands",
			mangle: mangle{forms: []quorum.ReasonCode{quorum.ReasonStands}},
			budget: budget{Quorums: 2, Crashes: 1, Restarts: 1, Steps: 1}, want: []string{"Q5"},
		},
		{
			name:   "settles without waiting",
			mangle: mangle{forms: []quorum.ReasonCode{quorum.ReasonSettlement}},
			budget: budget{Quorums: 1, Breaks: 1, GiveUps: 2, Cuts: 1, Steps: 1}, want: []string{"Q10"},
			from: 2_600,
			join: tick, // before whoever is cut off is lost
			script: func(x *explorer, w *world) []move {
				return []move{x.stepTo(w, 0, resPrepared, resCommit, resPrepared), {Kind: mvGiveUp, Who: "a"}}
			},
		},
		{
			name: "commits on prepared",
			mech: func(m *mechanics) { m.tally = eagerTally }, want: []string{"C5"}, ranks: 2,
		},
		{
			name: "does not compare digests",
			mech: func(m *mechanics) { m.judge = blindJudge }, want: []string{"C1"},
		},
		{
			name:   "knows positions by their step alone",
			mangle: mangle{stepOnly: true},
			budget: budget{Quorums: 3, Breaks: 2, Cuts: 1, GiveUps: 2, Crashes: 1, Steps: 3}, deep: true, want: []string{"C1", "C4", "C5"}, from: 250,
		},
		{
			name:   "counts a claim that was given up",
			mangle: mangle{keepsClaim: true}, budget: prepares, want: []string{"C1", "C4", "C5"},
		},
		{
			name:   "hears no facts",
			mangle: mangle{onJoin: func(j *quorum.Join) { j.Fact = quorum.Fact{} }},
			budget: prepares, want: []string{"C1", "C5"},
		},
		{
			name:   "takes answers to withdrawn joins",
			mangle: mangle{takesWithdrawn: true}, budget: prepares, want: []string{"C1", "C4", "C5"},
		},
		{name: "breaks its promise", mangle: mangle{breaksPromise: true}, budget: prepares, want: []string{"C5"}},
		{
			name:   "counts unhealed as refused",
			mangle: mangle{unhealedRefuses: true},
			budget: budget{Quorums: 3, Crashes: 2, Restarts: 1, Breaks: 1, Unhealed: 1, Steps: 2}, want: []string{"C5"},
			script: replaceB,
		},
		{
			name:   "forgets what was settled",
			mangle: mangle{onLedger: func(l *quorum.Ledger) { l.Settled = nil; l.Last.Settlement = quorum.Settlement{} }},
			budget: budget{Quorums: 3, Breaks: 1, Leaders: 1, Steps: 1}, deep: true, want: []string{"C6", "C5", "C1"},
		},
	}
}

// stepTo is the step of the quorum that all stand in, with these results.
func (x *explorer) stepTo(w *world, mask uint8, want ...result) move {
	for i, o := range x.outcomes[outcomeKey{len(want), mask}] {
		if slices.EqualFunc(o, want, func(m memberResult, r result) bool { return m == memberResult{Res: r} }) {
			return move{Kind: mvStep, Who: "a", Pick: i, Mask: mask}
		}
	}
	panic(fmt.Sprintf("explorer: no outcome %v", want))
}

// replaceB commits a step, lets b2 take b's place, and runs a step for which it
// could not heal: a commits, c is prepared, and a dies.
func replaceB(x *explorer, w *world) []move {
	moves := []move{
		x.stepTo(w, 0, resCommit, resCommit, resCommit),
		{Kind: mvCrash, Who: "b"}, {Kind: mvRestart, Who: "b"}, {Kind: mvReconnect, Who: "b2"},
		{Kind: mvJoin, Who: "b2"}, {Kind: mvBreak, Who: "a"}, {Kind: mvBreak, Who: "c"},
		{Kind: mvJoin, Who: "a"}, {Kind: mvJoin, Who: "c"},
	}
	for range 3 { // notices may come before the answer
		for _, id := range []quorum.ReplicaID{"a", "b2", "c"} {
			moves = append(moves, move{Kind: mvDeliver, Who: id})
		}
	}
	last := x.stepTo(w, 2, resCommit, resBehind, resPrepared)
	return append(moves, last, move{Kind: mvCrash, Who: "a"})
}

func unsettle(w *world, _, q *quorum.Quorum) {
	q.Settlement = quorum.Settlement{}
	for i, m := range q.Members {
		if j, ok := w.LHJoins[m.ReplicaID]; ok {
			q.Members[i].Position = j.Member.Position
		}
	}
}

func reuseID(_ *world, last, q *quorum.Quorum) {
	if last != nil && q.ID != last.ID {
		q.ID, q.Round = last.ID, last.Round+1
	}
}

// eagerTally takes an incomplete ballot for a good one.
func eagerTally(votes []quorum.RankVote) quorum.TallyResult {
	votes = slices.Clone(votes)
	for i := range votes {
		if votes[i].Vote == quorum.VotePrepared {
			votes[i].Vote = quorum.VoteYes
		}
	}
	return realTally(votes)
}

// blindJudge sees the same digest everywhere.
func blindJudge(own int, ballots []*quorum.Ballot) quorum.Verdict {
	same := make([]*quorum.Ballot, len(ballots))
	for i, b := range ballots {
		if b != nil {
			c := *b
			c.Digest = ballots[own].Digest
			same[i] = &c
		}
	}
	return quorum.JudgeBallots(own, same)
}

// TestExplorerFindsMutants shows that the search has teeth: with one rule
// taken out it finds a violation, and names one of the rules that are meant.
func TestExplorerFindsMutants(t *testing.T) {
	for _, mu := range mutants() {
		t.Run(mu.name, func(t *testing.T) {
			if mu.deep {
				testkit.Long(t)
			}
			t.Parallel()
			v := hunt(mu)
			if v == nil {
				t.Fatalf("no violation found, want one of %v", mu.want)
			}
			if rule := ruleOf(v.Err); !slices.Contains(mu.want, rule) {
				t.Errorf("found %q, want one of %v", v.Err, mu.want)
			}
			t.Logf("%d moves: %v\n%v", len(v.Trace), v.Err, v.Trace)
		})
	}
}

// hunt walks through a mutant's world at random, from many seeds: what it looks
// for is deep, and there are many ways to it.
func hunt(mu mutant) *violation {
	mech := realMechanics()
	if mu.mech != nil {
		mu.mech(&mech)
	}
	x, err := newExplorer(3, max(mu.ranks, 1), mech, mu.mangle)
	if err != nil {
		return &violation{Err: err}
	}
	cfg := explorerConfig(1)
	if mu.join > 0 {
		cfg.JoinTimeout = mu.join
	}
	first := newWorld(3, max(mu.ranks, 1), cfg, mu.budget)
	if err := x.start(first); err != nil {
		return &violation{Err: err}
	}
	fresh := func() *world { return deepCopy(x.cp, first) }
	var script []move
	if mu.script != nil {
		script = mu.script(x, fresh())
	}
	for seed := range uint64(20_000) {
		rng := rand.New(rand.NewPCG(mu.from+seed, 5))
		trace, w, err := x.repeat(fresh, script)
		if err != nil {
			return &violation{err, trace, false}
		}
		for range 50 {
			v := pick(rng, x.moves(w))
			trace = append(trace, v)
			if err := x.try(w, v); err != nil {
				return x.shorten(fresh, &violation{err, trace, false})
			}
		}
	}
	return nil
}
