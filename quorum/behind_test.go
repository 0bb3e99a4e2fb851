package quorum_test

import (
	"testing"

	"github.com/skerry-ft/skerry/quorum"
)

// A member gives its promise up while the quorum that counts on it is being written,
// and joins anew: that quorum fell before it began, and its other members are told so
// behind the answer. (It stood for the lighthouse, and they waited in a configuration for
// the one that never had the answer, for half of their step's time.)
func TestL4_WhoGivesUpBehindANewQuorumEndsIt(t *testing.T) {
	t.Parallel()
	for _, withdrawn := range []bool{false, true} {
		r := standing(t, rules(1), "a", "b", "c")
		r.commit("a")
		for _, id := range []quorum.ReplicaID{"b", "c"} {
			r.fall(id, r.prepared(id))
		}
		number := r.num - 1
		r.fall("a", quorum.Fact{})
		d := r.m.Decide(r.now)
		if !d.Ready || !d.Changed {
			t.Fatal(d.Reason)
		}
		r.m.Notices()
		if withdrawn {
			r.m.Withdraw(r.now, "b", number)
		}
		gaveUp := r.prepared("b")
		gaveUp.Kind, gaveUp.Digests = quorum.GaveUp, nil
		r.fall("b", gaveUp)
		q := r.m.Form(r.now, d, quorum.Token{1}, 1)
		told := fallTold(r, q.ID)
		if r.m.Status(r.now).Stands || !told["a"] || !told["c"] {
			t.Errorf("withdrawn before %t: quorum %d stands %t, told %v; want a and c told that it fell", withdrawn, q.ID, r.m.Status(r.now).Stands, told)
		}
	}
}

// fallTold are those who are told now that a quorum fell.
func fallTold(r *rig, id int64) map[quorum.ReplicaID]bool {
	told := map[quorum.ReplicaID]bool{}
	for _, n := range r.m.Notices() {
		for _, to := range n.To {
			told[to] = told[to] || n.Kind == quorum.NoticeFallen && n.QuorumID == id
		}
	}
	return told
}

// All ask, and the answer is a new round, for one has another address; while that is
// written it falls.
func TestL4_AFallBehindANewRoundIsTold(t *testing.T) {
	t.Parallel()
	r := standing(t, rules(1), "a", "b", "c")
	r.ask("a")
	r.ask("b")
	j := r.makeJoin("c", quorum.JoinAsk, quorum.Fact{})
	j.Member.Address = "http://elsewhere"
	if err := r.m.Join(r.now, j); err != nil {
		t.Fatal(err)
	}
	d := r.m.Decide(r.now)
	if !d.Ready || !d.Changed || d.Quorum.ID != r.m.Last().ID {
		t.Fatalf("%+v", d)
	}
	r.fall("c", quorum.Fact{Kind: quorum.Refused, Step: 1, QuorumID: r.m.Last().ID})
	r.m.Notices()
	q := r.m.Form(r.now, d, quorum.Token{1}, 1)
	told := fallTold(r, q.ID)
	if r.m.Status(r.now).Stands || !told["a"] || !told["b"] {
		t.Errorf("quorum %d.%d stands %t, told %v; decides %v", q.ID, q.Round, r.m.Status(r.now).Stands, told, r.m.Decide(r.now).Reason)
	}
}

// L3: a joiner's stream breaks while the members ask for its sake, and it is back before
// they are answered that nothing changes: they are told of it again at once. (It had to
// wait for a join timeout, after a cable that was out for two seconds.)
func TestL3_AJoinerThatIsBackBehindAnUnchangedAnswerIsLetIn(t *testing.T) {
	t.Parallel()
	r := standing(t, rules(1), "a", "b")
	r.commit("a", "b")
	r.open("c")
	r.fall("c", quorum.Fact{})
	r.ask("a")
	r.ask("b")
	r.m.Broken(r.now, "c", "EOF", false)
	d := r.m.Decide(r.now)
	if !d.Ready || d.Changed {
		t.Fatalf("ready %t, changed %t: %v; want that the quorum goes on", d.Ready, d.Changed, d.Reason)
	}
	r.open("c")
	r.fall("c", quorum.Fact{})
	r.m.Notices()
	q := r.m.Form(r.now, d, quorum.Token{1}, 1)
	told := map[quorum.ReplicaID]bool{}
	for _, n := range r.m.Notices() {
		for _, id := range n.To {
			told[id] = told[id] || n.Kind == quorum.NoticeWanted && n.QuorumID == q.ID
		}
	}
	if !told["a"] || !told["b"] {
		t.Errorf("told that a change is wanted: %v, want a and b", told)
	}
}
