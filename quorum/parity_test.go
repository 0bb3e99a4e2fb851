package quorum_test

import (
	"testing"

	"github.com/skerry-ft/skerry/quorum"
)

// A byte that differs is in one of the slices that are compared within ParityBound
// steps, whichever step comes first.
func TestParitySlicesCoverTheState(t *testing.T) {
	t.Parallel()
	for _, total := range []int64{0, 1, quorum.ParityBytes - 1, quorum.ParityBytes, quorum.ParityBytes + 1, 5*quorum.ParityBytes - 3} {
		for _, every := range []int{1, 2, quorum.DefaultParityEvery, 64} {
			bound := quorum.ParityBound(every, total)
			for first := range int64(3 * every) {
				next := map[int64]int64{} // where each compared run ends
				for step := first; step < first+bound; step++ {
					if !quorum.ParityDue(step, every) {
						continue
					}
					s := quorum.ParitySlice(step, total)
					if s.To-s.From > quorum.ParityBytes || s.From > s.To || s.To > total || s.Index >= s.Count {
						t.Fatalf("step %d of %d bytes: slice %+v", step, total, s)
					}
					next[s.From] = s.To
				}
				at := int64(0)
				for at < total {
					to, ok := next[at]
					if !ok {
						t.Fatalf("from step %d, every %d: byte %d of %d is not compared in %d steps", first, every, at, total, bound)
					}
					at = to
				}
			}
		}
	}
	for every, want := range map[int]bool{-1: true, 0: true, 1: true, 2: true, 64: true, 3: false, 12: false} {
		if quorum.ValidParityEvery(every) != want {
			t.Errorf("every %d steps: valid %t, want %t", every, !want, want)
		}
	}
	if quorum.ParityDue(8, -1) || quorum.ParityDue(8, 0) {
		t.Error("due though it is off")
	}
}

// C1 at rest: two states at one position are a no for everybody, and where all
// ballots came the same replicas are named by everybody.
func TestC1_StatesAtRestAreCompared(t *testing.T) {
	t.Parallel()
	good := ballot()
	type ballots = []*quorum.Ballot
	for _, c := range []struct {
		name    string
		ballots ballots // own is rank 0
		want    quorum.Verdict
	}{
		{"equal states", ballots{ballot(state(1)), ballot(state(1))}, quorum.Verdict{Vote: quorum.VoteYes}},
		{"who tells no state differs from nobody", ballots{ballot(state(1)), good, ballot(state(1))},
			quorum.Verdict{Vote: quorum.VoteYes}},
		{"the one of three whose state differs is named (C1)", ballots{ballot(state(1)), ballot(state(2)), ballot(state(1))},
			quorum.Verdict{Vote: quorum.VoteNo, ChangeWanted: true, Differ: []int{1}, Majority: true}},
		{"also if it is the first", ballots{ballot(state(2)), ballot(state(1)), ballot(state(1))},
			quorum.Verdict{Vote: quorum.VoteNo, ChangeWanted: true, Differ: []int{0}, Majority: true}},
		{"of two states the first who tells is right", ballots{good, ballot(state(2)), ballot(state(1))},
			quorum.Verdict{Vote: quorum.VoteNo, ChangeWanted: true, Differ: []int{2}}},
		{"of two halves the first's is right", ballots{ballot(state(1)), ballot(state(2)), ballot(state(1)), ballot(state(2))},
			quorum.Verdict{Vote: quorum.VoteNo, ChangeWanted: true, Differ: []int{1, 3}}},
		{"of three states the first is right", ballots{ballot(state(1)), ballot(state(2)), ballot(state(3))},
			quorum.Verdict{Vote: quorum.VoteNo, ChangeWanted: true, Differ: []int{1, 2}}},
		{"where a ballot is missing nobody is named", ballots{ballot(state(1)), ballot(state(2)), nil, ballot(state(1))},
			quorum.Verdict{Vote: quorum.VoteNo, Broken: true, ChangeWanted: true, Missing: []int{2}}},
		{"who heals does not tell", ballots{ballot(state(1)), ballot(state(2), healed), ballot(state(1))},
			quorum.Verdict{Vote: quorum.VoteYes}},
		{"whose step failed does", ballots{ballot(state(1)), ballot(state(1)), ballot(state(2), notOK, unreduced)},
			quorum.Verdict{Vote: quorum.VoteNo, ChangeWanted: true, NotOK: []int{2}, Differ: []int{2}, Majority: true}},
		{"at another position there is no comparing", ballots{ballot(state(1)), ballot(state(2), elsewhere)},
			quorum.Verdict{Vote: quorum.VoteNo, Broken: true, NotOK: []int{1}}},
		{"a slice differs from no whole state", ballots{ballot(state(1)), ballot(whole(2)), ballot(state(1)), ballot(whole(2))},
			quorum.Verdict{Vote: quorum.VoteYes}},
		{"a slice of several is named beside whole states", ballots{ballot(state(1)), ballot(whole(2)), ballot(state(3)), ballot(whole(2)), ballot(state(1))},
			quorum.Verdict{Vote: quorum.VoteNo, ChangeWanted: true, Differ: []int{2}, Majority: true}},
		{"both kinds are named at once, and one without a majority makes it none", ballots{ballot(whole(2)), ballot(state(1)), ballot(state(3)), ballot(whole(2)), ballot(whole(4))},
			quorum.Verdict{Vote: quorum.VoteNo, ChangeWanted: true, Differ: []int{2, 4}}},
		{"who heals sees that the others differ", ballots{ballot(unhealed), ballot(state(1)), ballot(state(2)), ballot(state(1))},
			quorum.Verdict{Vote: quorum.VoteNo, ChangeWanted: true, Differ: []int{2}, Majority: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			judges(t, c.ballots, c.want)
		})
	}
}

// formedOf is a quorum of which all take part who need not heal.
func formedOf(id int64, members ...quorum.Member) *quorum.Quorum {
	q := &quorum.Quorum{Cluster: "x", ID: id, Round: 1, Members: members}
	for _, m := range members {
		if !m.Differs || len(members) == 1 {
			q.Participants = append(q.Participants, m.ReplicaID)
		}
	}
	return q
}

// A rank that its ballots name says so in each join until it has healed, and gives
// nobody its state; one that is told that it need not heal goes on with what it has.
func TestC1_ARankThatDiffersSaysSoUntilItHealed(t *testing.T) {
	t.Parallel()
	at := quorum.Position{Cluster: "x", Step: 7, QuorumID: 6}
	member := func(id quorum.ReplicaID, differs bool) quorum.Member {
		return quorum.Member{ReplicaID: id, Address: "h", StoreAddress: "h:1", GroupWorldSize: 1, Position: at, Differs: differs}
	}
	r := quorum.NewRank(quorum.RankConfig{GroupWorldSize: 1, MinReplicas: 1, ParityEvery: 8})
	r.Start(at, 0)
	take := func(q *quorum.Quorum) {
		t.Helper()
		if taken, err := r.Take("b", q, 0); err != nil || taken.Wrong || !r.Configured() || !r.Fulfil() {
			t.Fatalf("%+v, %v", taken, err)
		}
	}
	ballotOf := func(sum uint32) quorum.Ballot {
		r.Begin()
		step, where, ok := r.Compares()
		if !ok || step != 8 || where != at {
			t.Fatalf("step %d at %v, due %t; want step 8, due", step, where, ok)
		}
		r.Rested(where, quorum.Digest{Valid: true, Sum: sum}, true)
		r.Close()
		return r.Ballot(false)
	}
	take(formedOf(7, member("a", false), member("b", false), member("c", false)))
	own := ballotOf(2)
	other := own
	other.State.Sum = 1
	r.Seal(own)
	vote, v := r.Judged(quorum.JudgeBallots(1, []*quorum.Ballot{&other, &own, &other}), quorum.Digest{}, false)
	if v.Yes() || vote.Broken || !r.Differs() {
		t.Fatalf("%+v, differs %t; want a no that names it", v, r.Differs())
	}
	out := r.Resolve(quorum.TallyResult{Outcome: quorum.TallyAbort, Stands: true, ChangeWanted: v.ChangeWanted}, vote)
	if e := r.End(out); out.Commit || !e.Asks || !r.Ask() {
		t.Errorf("%+v, %+v: want no commit, and an ask", out, e)
	}
	if rep := r.Report(quorum.ReportOptions{}); !rep.Differs || rep.Position != at || rep.Kind != quorum.JoinAsk || rep.CommitFailures == 0 {
		t.Errorf("%+v, want that it differs, where it is, after a failed commit", rep)
	}
	take(formedOf(8, member("a", false), member("b", true), member("c", false)))
	if !r.Behind() || !r.Differs() || r.Shares().Rank >= 0 {
		t.Errorf("behind %t, differs %t, shares %v; want it to heal, and no participant", r.Behind(), r.Differs(), r.Shares())
	}
	r.Begin()
	r.Rested(at, quorum.Digest{Valid: true, Sum: 2}, true)
	r.Healed(at, 0, quorum.Digest{})
	r.HealedBeside()
	if b := r.Ballot(false); b.State.Valid || r.Differs() || r.Behind() {
		t.Errorf("%+v, differs %t: want no word of what it held before it healed", b, r.Differs())
	}

	r.Seal(own)
	r.Judged(quorum.JudgeBallots(1, []*quorum.Ballot{&other, &own, &other}), quorum.Digest{}, false)
	r.Leave()
	r.Fall(8)
	r.Need()
	take(formedOf(9, member("b", true)))
	if r.Differs() || r.Behind() {
		t.Errorf("differs %t, behind %t: want that its state is all that is left", r.Differs(), r.Behind())
	}
}
