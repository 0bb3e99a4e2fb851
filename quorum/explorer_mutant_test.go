package quorum_test

import (
	"slices"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// mangle is one mutant: a fault put between the members and the code under
// test. Its zero value changes nothing.
type mangle struct {
	onBeat          func(*quorum.Position) // what beats and hellos say
	onJoin          func(*quorum.Join)
	onAnswer        func(w *world, last, q *quorum.Quorum)
	onLedger        func(*quorum.Ledger) // what a new leader finds
	forms           []quorum.ReasonCode  // reasons not to form that are overridden
	takesWithdrawn  bool                 // answers to withdrawn joins are taken
	breaksPromise   bool                 // a prepared member discards by itself
	unhealedRefuses bool                 // an unhealed member's fact is a refusal
}

func (m *mangle) position(p *quorum.Position) {
	if m.onBeat != nil {
		m.onBeat(p)
	}
}

func (m *mangle) join(j *quorum.Join) {
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
	want   []string // the rules that may be named
}

// prepares are the faults that leave prepared members behind.
var prepares = budget{Quorums: 3, Crashes: 1, Breaks: 1, Cuts: 1, GiveUps: 1, Steps: 3}

func mutants() []mutant {
	return []mutant{
		{name: "skips the settlement", mangle: mangle{onAnswer: unsettle}, budget: prepares, want: []string{"C1", "C5"}},
		{name: "reuses an id", mangle: mangle{onAnswer: reuseID}, budget: prepares, want: []string{"Q1", "Q2", "C1", "D1"}},
		{
			name:   "ignores holders",
			mangle: mangle{forms: []quorum.ReasonCode{quorum.ReasonHolder}},
			budget: budget{Quorums: 2, Crashes: 2, Restarts: 2, Steps: 2}, want: []string{"Q1"},
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
			budget: budget{Quorums: 2, Breaks: 1, GiveUps: 2, Cuts: 1, Steps: 1}, want: []string{"Q1", "C5"},
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
			mangle: mangle{onBeat: stepOnly, onJoin: func(j *quorum.Join) { stepOnly(&j.Member.Position) }},
			budget: budget{Quorums: 3, Breaks: 2, Cuts: 1, Steps: 3, Crashes: 1, GiveUps: 2}, want: []string{"C1"},
		},
		{
			name:   "counts a claim that was given up",
			mangle: mangle{onJoin: claimAgain}, budget: prepares, want: []string{"C1", "C4"},
		},
		{
			name:   "hears no facts",
			mangle: mangle{onJoin: func(j *quorum.Join) { j.Fact = quorum.Fact{} }},
			budget: prepares, want: []string{"C1", "C5"},
		},
		{
			name:   "takes answers to withdrawn joins",
			mangle: mangle{takesWithdrawn: true}, budget: prepares, want: []string{"C1", "C4"},
		},
		{name: "breaks its promise", mangle: mangle{breaksPromise: true}, budget: prepares, want: []string{"C5"}},
		{
			name:   "counts unhealed as refused",
			mangle: mangle{unhealedRefuses: true},
			budget: budget{Quorums: 4, Crashes: 2, Restarts: 1, Breaks: 1, Unhealed: 1, Steps: 3}, want: []string{"C5"},
		},
		{
			name:   "forgets what was settled",
			mangle: mangle{onLedger: func(l *quorum.Ledger) { l.Settled = nil; l.Last.Settlement = quorum.Settlement{} }},
			budget: budget{Quorums: 4, Breaks: 1, Cuts: 2, GiveUps: 2, Leaders: 2, Steps: 2}, want: []string{"C6", "C5", "C1"},
		},
	}
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

func stepOnly(p *quorum.Position) { p.QuorumID = 0 }

func claimAgain(j *quorum.Join) {
	if j.Fact.Kind == quorum.GaveUp {
		j.Fact.Kind = quorum.Prepared
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
			t.Parallel()
			v := hunt(mu)
			if v == nil {
				t.Fatalf("no violation found, want one of %v", mu.want)
			}
			if rule := ruleOf(v.Err); !slices.Contains(mu.want, rule) {
				t.Errorf("found %q, want one of %v", v.Err, mu.want)
			}
			t.Logf("%d moves: %v", len(v.Trace), v.Err)
		})
	}
}

// hunt searches a mutant's world.
func hunt(mu mutant) *violation {
	mech := realMechanics()
	if mu.mech != nil {
		mu.mech(&mech)
	}
	x, err := newExplorer(3, max(mu.ranks, 1), mech, mu.mangle)
	if err != nil {
		return &violation{Err: err}
	}
	w := newWorld(3, explorerConfig(1), mu.budget)
	if err := x.start(w); err != nil {
		return &violation{Err: err}
	}
	return x.search(w, limits{States: 400_000, Time: time.Minute})
}
