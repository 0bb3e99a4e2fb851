package sim

import (
	"maps"
	"slices"

	"github.com/skerry-ft/skerry/quorum"
)

// Mutant is one rule taken out: a fault put between the members and the code under
// test, as the mutants of package quorum's explorer are. The zero value changes
// nothing.
type Mutant struct {
	Name string
	Want []string // the rules that may be named when it is found

	forms          []quorum.ReasonCode // reasons not to form that are overridden
	majority       bool                // but not without one
	onJoin         func(*quorum.Join)  // what the machine hears
	onAnswer       func(last, q *quorum.Quorum)
	onPlan         func(*quorum.Quorum, *quorum.Assignment)
	onApply        func(*quorum.Ledger, *quorum.Formed) // before a command takes effect
	onLedger       func(*quorum.Ledger)                 // after it did
	onRestart      func(*quorum.Ledger)                 // what a new leader finds
	judge          func(own int, ballots []*quorum.Ballot) quorum.Verdict
	onVote         func(*quorum.RankVote)                     // what a rank tells its replica's tally
	onTally        func(*quorum.TallyResult, quorum.RankVote) // what a rank that voted so is told of its decision
	onBallot       func(*quorum.Ballot)                       // what a rank's peers hear
	onReport       func(*quorum.RankReport)                   // what a rank tells its replica
	onNotice       func(quorum.Notice) bool                   // whether ranks do not hear it
	noMissing      bool                                       // votes that are missing are taken for good ones
	neverAsks      bool                                       // nobody asks at the end of a step
	noVerify       bool                                       // an answer that is told again is told without a check of leadership
	presumesNobody bool                                       // a new leader takes the last members for dead
	keepsClaim     bool                                       // a claim that was given up is still sent as prepared
	deaf           bool                                       // the machine hears of no broken link
	flips          bool                                       // bits flip
	anyDonor       bool                                       // a donor gives what it has, whatever it is
	onMerge        func(*quorum.Join, quorum.RankReport)      // what a replica makes of its reports, of which one is rank 0's
	onList         bool                                       // a list of ballots is taken as the backend gives it
	keepsUnknown   bool                                       // a rank that does not know its digest counts as prepared
	noCatchUp      bool                                       // a rank that hung goes on with the attempt after its own
	alwaysBallots  bool                                       // a ballot is given wherever there is a group
	sealsOK        bool                                       // a ballot that vetoes nothing, and is not ok, is no promise
	sharesNothing  bool                                       // nobody notes what a trainer was told of its share
	leavesQuietly  bool                                       // an attempt is given up, and its quorum stands
	castsNothing   bool                                       // and no vote is cast on it
}

// Near is a seed a little before the first that shows the mutant: where to look for it.
func (m Mutant) Near() uint64 {
	return map[string]uint64{
		"veto": 7200, "verify": 235, "gaveup": 223, "differs": 95, "uncast": 94, "unheard": 87, "claim": 74, "torn": 72,
		"list": 35, "settled": 34, "quietly": 26,
	}[m.Name] + 1
}

// Mutants are all of them.
func Mutants() []Mutant {
	return slices.Concat(restMutants(), rankMutants(), []Mutant{
		{
			Name: "majority", Want: []string{"Q5", "Q6", "Q9", "Q10"}, // does not wait for one
			forms: []quorum.ReasonCode{quorum.ReasonNoMajority, quorum.ReasonStragglers},
		},
		{
			Name: "outvote", Want: []string{"Q5", "Q6"}, // joiners end a quorum that stands
			forms: []quorum.ReasonCode{quorum.ReasonStands},
		},
		{
			Name: "holder", Want: []string{"Q6", "Q9", "Q10"}, // forms with any majority, without one
			forms: []quorum.ReasonCode{quorum.ReasonHolder, quorum.ReasonStragglers}, majority: true,
		},
		{Name: "id", Want: []string{"Q1", "Q2"}, onAnswer: reuseID},
		{
			Name: "ledger", Want: []string{"Q1", "Q2", "Q4", "Q6", "C1", "C5", "C6", "witness"}, // a new leader begins without
			onRestart: func(l *quorum.Ledger) { *l = quorum.NewLedger(l.Cluster, l.Job, 0) },
		},
		{
			Name: "settled", Want: []string{"C1", "C5", "C6"}, // forgets what was, so settles it again
			onLedger: func(l *quorum.Ledger) { l.Settled = nil },
		},
		{Name: "unsettled", Want: []string{"C1", "C5", "C6"}, onAnswer: unsettle},
		{Name: "verify", Want: []string{"Q1"}, noVerify: true},
		{Name: "fence", Want: []string{"Q1", "Q2", "C6"}, onApply: unfence},
		{
			Name: "refused", Want: []string{"C5", "C6"}, // nobody hears refusals
			onJoin: func(j *quorum.Join) {
				if j.Fact.Kind == quorum.Refused {
					j.Fact.Kind = quorum.GaveUp
				}
			},
		},
		{
			Name: "facts", Want: []string{"C1", "C5", "C6"}, // nobody hears any
			onJoin: func(j *quorum.Join) { j.Fact = quorum.Fact{} },
		},
		{Name: "presume", Want: []string{"witness"}, presumesNobody: true},
		{Name: "claim", Want: []string{"C1", "C5"}, keepsClaim: true},
		{Name: "promise", Want: []string{"C5", "C6"}, onTally: breakPromise},
		{Name: "donor", Want: []string{"C1"}, anyDonor: true, onPlan: behindDonors},
		{Name: "missing", Want: []string{"C2", "C5"}, noMissing: true},
		{Name: "alone", Want: []string{"C1", "C2", "C3", "C5"}, onTally: goAlone},
		{
			Name: "asking", Want: []string{"Q6", "C7", "C5"}, // a fall is told as an ask
			onReport: func(r *quorum.RankReport) {
				if r.HaveQuorumID > 0 {
					r.Kind, r.Fact = quorum.JoinAsk, quorum.Fact{}
				}
			},
		},
		{Name: "quiet", Want: []string{"Q6"}, onBallot: func(b *quorum.Ballot) { b.ChangeWanted, b.Unhealed = false, false }},
		{Name: "patient", Want: []string{"Q6"}, neverAsks: true},
		{
			Name: "unheard", Want: []string{"C7", "Q6"}, // nobody hears that a quorum has fallen
			onNotice: func(n quorum.Notice) bool {
				return n.Kind == quorum.NoticeFallen || n.Kind == quorum.NoticeLost
			},
		},
		{Name: "eager", Want: []string{"C2", "C5"}, onVote: eager},
		{Name: "deaf", Want: []string{"Q9", "Q7"}, deaf: true},
		{Name: "digests", Want: []string{"C1"}, judge: blindJudge},
		{
			Name: "steps", Want: []string{"C1", "C5", "Q10"}, // knows positions by their step alone
			onJoin: func(j *quorum.Join) { j.Member.Position.QuorumID = min(j.Member.Position.QuorumID, 1) },
		},
	})
}

// eager takes incomplete ballots for good ones.
func eager(v *quorum.RankVote) {
	if v.Vote == quorum.VotePrepared {
		v.Vote = quorum.VoteYes
	}
}

// breakPromise refuses what was promised when ballots are lost.
func breakPromise(t *quorum.TallyResult, _ quorum.RankVote) {
	if t.Outcome == quorum.TallyPrepared {
		t.Outcome = quorum.TallyAbort
	}
}

// goAlone has each rank do what it voted for, whatever the others voted.
func goAlone(t *quorum.TallyResult, v quorum.RankVote) {
	switch v.Vote {
	case quorum.VoteYes:
		t.Outcome = quorum.TallyCommit
	case quorum.VoteNo:
		t.Outcome = quorum.TallyAbort
	}
}

func reuseID(last, q *quorum.Quorum) {
	if last != nil && q.ID != last.ID {
		q.ID, q.Round = last.ID, last.Round+1
	}
}

// unsettle tells the opposite of what was settled.
func unsettle(_, q *quorum.Quorum) {
	switch q.Settlement.Outcome {
	case quorum.Forward:
		q.Settlement.Outcome, q.Settlement.Digests = quorum.Discard, nil
	case quorum.Discard:
		q.Settlement.Outcome = quorum.Forward
	}
}

// unfence lets any command take effect.
func unfence(l *quorum.Ledger, f *quorum.Formed) {
	f.FollowsID, f.FollowsRound = 0, 0
	if l.Last != nil {
		f.FollowsID, f.FollowsRound = l.Last.ID, l.Last.Round
	}
	f.Term = max(f.Term, l.Term)
	l.HighestID = min(l.HighestID, f.Quorum.ID-1)
}

// behindDonors names those as sources who need to heal themselves.
func behindDonors(q *quorum.Quorum, a *quorum.Assignment) {
	if !a.Heal {
		return
	}
	var behind []quorum.Peer
	for rank, m := range q.Members {
		if m.Position != a.Max && rank != a.ReplicaRank {
			behind = append(behind, quorum.Peer{ReplicaID: m.ReplicaID, Rank: rank, Address: m.Address})
		}
	}
	if len(behind) > 0 {
		a.Sources = behind
	}
}

// blindJudge sees the same digest everywhere.
func blindJudge(own int, ballots []*quorum.Ballot) quorum.Verdict {
	return judgeOthers(own, ballots, func(b *quorum.Ballot) { b.Digest = ballots[own].Digest })
}

// judgeOthers judges copies of the ballots that are changed.
func judgeOthers(own int, ballots []*quorum.Ballot, change func(*quorum.Ballot)) quorum.Verdict {
	changed := make([]*quorum.Ballot, len(ballots))
	for i, b := range ballots {
		if b != nil {
			changed[i] = new(*b)
			change(changed[i])
		}
	}
	return quorum.JudgeBallots(own, changed)
}

// restMutants are those of comparing states at rest.
func restMutants() []Mutant {
	return []Mutant{
		{Name: "parity", Want: []string{"C1", "Q6"}, judge: stateless, flips: true}, // does not compare states at rest
		{
			Name: "differs", Want: []string{"C1", "Q6", "Q8"}, flips: true, // who differs does not say so, or is kept out for it
			onJoin: func(j *quorum.Join) { j.Member.Differs = false },
		},
	}
}

// stateless sees no states.
func stateless(own int, ballots []*quorum.Ballot) quorum.Verdict {
	return judgeOthers(own, ballots, func(b *quorum.Ballot) { b.State = quorum.Digest{} })
}

// rankMutants are those of attempts that end otherwise than by a full exchange of
// ballots, and of ranks that are not in step.
func rankMutants() []Mutant {
	return []Mutant{
		{Name: "list", Want: []string{"C2"}, onList: true},          // takes what a backend gives for a list of all
		{Name: "unknown", Want: []string{"C5"}, keepsUnknown: true}, // who does not know its digest says that it is prepared
		{
			Name: "gaveup", Want: []string{"C5"}, // who gave up refuses
			onReport: func(r *quorum.RankReport) {
				if r.Fact.Kind == quorum.GaveUp {
					r.Fact.Kind = quorum.Refused
				}
			},
		},
		{Name: "veto", Want: []string{"C2", "C5"}, sealsOK: true},
		{Name: "void", Want: []string{"odd"}, alwaysBallots: true},
		{Name: "quietly", Want: []string{"odd", "Q6", "C7"}, leavesQuietly: true},
		{Name: "uncast", Want: []string{"C7"}, castsNothing: true},
		{Name: "apace", Want: []string{"C5", "Q6", "C7"}, noCatchUp: true},
		{Name: "shares", Want: []string{"shares"}, sharesNothing: true},
		{
			Name: "torn", Want: []string{"C1", "Q6"}, // torn replicas are where their rank 0 is
			onMerge: func(j *quorum.Join, first quorum.RankReport) {
				j.Member.Torn, j.Member.Position = false, first.Position
			},
		},
	}
}

// override writes the quorum of all who have joined, though the machine says that
// it is not time. It says whether it does.
func (r *leadership) override(d quorum.Decision) bool {
	if !slices.Contains(r.w.mutant.forms, d.Reason.Code) || r.forms > 0 {
		return false
	}
	l := r.s.ledger
	f := quorum.Formed{Term: r.term, Client: quorum.KindSkerry}
	q := quorum.Quorum{Cluster: "x", Job: "default", ID: l.HighestID + 1, Round: 1}
	if l.Last != nil {
		f.FollowsID, f.FollowsRound, q.ID = l.Last.ID, l.Last.Round, max(l.HighestID, l.Last.ID)+1
	}
	var answers []quorum.Answered
	for _, id := range slices.Sorted(maps.Keys(r.joins)) {
		if !r.book.Waits(string(id)) {
			continue
		}
		j := r.joins[id]
		q.Members = append(q.Members, j.Member)
		q.Participants = append(q.Participants, id)
		answers = append(answers, quorum.Answered{ReplicaID: id, Number: j.Number})
	}
	if len(q.Members) < r.book.Config().MinReplicas || r.w.mutant.majority && 2*len(q.Members) <= r.book.Live() {
		return false
	}
	f.Quorum = q
	r.forms++
	r.busy = true
	decided, floor := r.w.now, r.w.check.Floor()
	r.book.Decided(r.s.clock().Sub(epochStart), true, &q)
	r.write(command{formed: &f}, func(err error) {
		r.busy = false
		if r.over || r.w.err != nil {
			return
		}
		if err != nil {
			r.rebuild(err)
			return
		}
		r.release(&q, decided, floor, true, answers)
		r.rebuild(errTimeout) // the machine knows nothing of it
	})
	return true
}
