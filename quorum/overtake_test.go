package quorum_test

import (
	"testing"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

const (
	elderID    = quorum.ReplicaID("a:00000000-0000-4000-8000-000000000001")
	newcomerID = quorum.ReplicaID("a:00000000-0000-4000-8000-000000000002")
)

// While this process was stopped, the elder may have spoken: a newcomer of its
// name waits on.
func TestDoubtHoldsANewcomer(t *testing.T) {
	t.Parallel()
	for _, doubts := range []bool{false, true} {
		s, _ := standingScene(t, elderID, "b")
		s.open(newcomerID)
		s.join(skerryJoin(newcomerID, 1))
		s.now = s.now.Add(800 * time.Millisecond)
		if doubts {
			s.Doubt(s.now, 800*time.Millisecond)
		}
		s.Advance(s.now)
		if got := s.Status(s.now).Stands; got != doubts {
			t.Errorf("doubts %t: the quorum stands %t", doubts, got)
		}
	}
}

// A suspect for which its peers speak is not lost because this process was
// stopped and did not hear them.
func TestDoubtKeepsWhoIsVouchedFor(t *testing.T) {
	t.Parallel()
	for _, doubts := range []bool{false, true} {
		s, q := standingScene(t, "a", "b")
		s.Notices()
		s.Broken(s.now, "a", "EOF", false)
		for _, n := range s.Notices() {
			if n.Kind == quorum.NoticeProbe {
				s.Reply(s.now, "b", n.Number)
			}
		}
		beat := func(ballots uint64) {
			t.Helper()
			s.now = s.now.Add(100 * time.Millisecond)
			if err := s.Beat(s.now, "b", quorum.Beat{QuorumID: q.ID, Ballots: ballots}); err != nil {
				t.Fatal(err)
			}
		}
		for ballots := range uint64(6) {
			beat(ballots)
		}
		s.now = s.now.Add(3 * time.Second)
		if doubts {
			s.Doubt(s.now, 3*time.Second)
		}
		s.Advance(s.now)
		if got := s.Status(s.now).Stands; got != doubts {
			t.Errorf("doubts %t: the quorum stands %t", doubts, got)
		}
	}
}

// A drain that comes while raft writes is not answered by that quorum: its
// members are told that a change is wanted.
func TestDrainBetweenDecideAndForm(t *testing.T) {
	t.Parallel()
	s, first := standingScene(t, "a", "b")
	for _, id := range []quorum.ReplicaID{"a", "b"} {
		j := skerryJoin(id, 2)
		j.Last = &quorum.LastAnswer{QuorumID: first.ID, Round: first.Round, Members: first.Members}
		s.join(j)
	}
	d := s.Decide(s.now)
	if err := s.Drain(s.now, "b", "maintenance"); err != nil {
		t.Fatal(err)
	}
	s.Notices()
	q := s.Form(s.now, d, quorum.Token{1}, 1)
	var told []quorum.ReplicaID
	for _, n := range s.Notices() {
		if n.Kind == quorum.NoticeWanted && n.QuorumID == q.ID {
			told = n.To
		}
	}
	if len(told) != 2 {
		t.Errorf("told %v that a change is wanted, want a and b", told)
	}
}

// Q2: all ask, and the answer is that their quorum goes on as it is. While leadership is
// checked for that answer a member dies: the quorum has fallen, and does not stand again.
// (It stood again with the dead one, and the others, who had heard of the death, were
// told to go on in it.)
func TestQ2_ADeathBehindAnUnchangedAnswerIsNotForgotten(t *testing.T) {
	t.Parallel()
	for _, lostBefore := range []bool{false, true} {
		s, first := standingScene(t, "a", "b", "c")
		dies := func(id quorum.ReplicaID) {
			s.Broken(s.now, id, "EOF", false)
			if err := s.Accuse(s.now, quorum.Accusation{By: "a", Against: id, QuorumID: first.ID, Evidence: "reset"}); err != nil {
				t.Fatal(err)
			}
		}
		asks := func(ids ...quorum.ReplicaID) {
			for _, id := range ids {
				j := skerryJoin(id, 2)
				j.Kind, j.Last = quorum.JoinAsk, &quorum.LastAnswer{QuorumID: first.ID, Round: first.Round, Members: first.Members}
				s.join(j)
			}
		}
		if lostBefore { // and is back, with its ask
			s.Notices()
			dies("b")
			s.open("b")
		}
		asks("a", "b", "c")
		d := s.Decide(s.now)
		if !d.Ready || d.Changed || d.Quorum.ID != first.ID {
			t.Fatalf("decided %+v, want that quorum %d goes on", d, first.ID)
		}
		dies("c")
		if s.Status(s.now).Stands {
			t.Fatalf("b was lost before %t: c's death did not end the quorum: %v", lostBefore, s.Events())
		}
		s.Form(s.now, d, quorum.Token{1}, 1)
		if s.Status(s.now).Stands {
			t.Errorf("b was lost before %t: the quorum stands again with c, which is dead", lostBefore)
		}
	}
}

// A new leader does not take an evicted member for a live one.
func TestNewLeaderKnowsTheEvicted(t *testing.T) {
	t.Parallel()
	s, _ := standingScene(t, "a", "b")
	l := s.Ledger()
	if err := l.ApplyEvict("b"); err != nil {
		t.Fatal(err)
	}
	next := quorum.New(s.now, quorum.DefaultConfig(), l)
	st := next.Status(s.now)
	if st.Stands {
		t.Error("the quorum stands, though a member was evicted")
	}
	for _, r := range st.Replicas {
		if want := map[quorum.ReplicaID]bool{"b": true}[r.ReplicaID]; (r.State == quorum.StateEvicted) != want {
			t.Errorf("%s is %s", r.ReplicaID, r.State)
		}
	}
}

// Q9 and Q10: of two that are kept apart, the only holder of the highest
// position stays, whatever the ids: else training would wait for it for as long
// as they are kept apart.
func TestKeptApartTheHolderStays(t *testing.T) {
	t.Parallel()
	r := standing(t, rules(1), "b")
	r.commit("b")
	r.beat()
	for _, id := range []quorum.ReplicaID{"a", "c"} { // new, behind, and a is smaller by id
		r.open(id)
		r.fall(id, quorum.Fact{})
	}
	r.wait(time.Second)
	r.ask("b")
	r.mustForm()
	for range 2 { // their link breaks while the others heal
		q := r.m.Last()
		if err := r.m.Accuse(r.now, quorum.Accusation{By: "b", Against: "a", QuorumID: q.ID, Evidence: "reset"}); err != nil {
			t.Fatal(err)
		}
		r.probes()
		r.fall("b", quorum.Fact{Kind: quorum.Refused, Step: r.pos["b"].Step + 1, QuorumID: q.ID})
		for _, id := range []quorum.ReplicaID{"a", "c"} {
			r.fall(id, quorum.Fact{Kind: quorum.GaveUp, Step: r.pos["b"].Step + 1, QuorumID: q.ID})
		}
		r.wait(time.Second)
		r.mustForm()
	}
	if got := idsOf(r.m.Last()); len(got) != 2 || got[0] != "b" || got[1] != "c" {
		t.Errorf("quorum of %v, want b and c", got)
	}
}

// Q9 and Q10: one that drains and alone holds the highest position is in the next
// quorum until another one has it, and who is kept apart from it is not.
func TestKeptApartTheHolderThatDrainsStays(t *testing.T) {
	t.Parallel()
	r := standing(t, rules(1), "a")
	r.commit("a")
	r.beat()
	for _, id := range []quorum.ReplicaID{"b", "c"} {
		r.open(id)
		r.fall(id, quorum.Fact{})
	}
	if err := r.m.Link(r.now, quorum.LinkReport{By: "b", To: "a", Evidence: "no answer"}); err != nil {
		t.Fatal(err)
	}
	if err := r.m.Drain(r.now, "a", "maintenance"); err != nil {
		t.Fatal(err)
	}
	r.ask("a")
	r.wait(time.Second)
	r.mustForm("a", "c")
}

// A member gives its promise up while the answer that counts on it is on its way,
// and joins anew. The quorum of that answer fell before it began, and its other members
// are told so at once. (They were not, for the quorum of which the join spoke had been
// settled: they waited in a configuration for the one that never came, until half of
// their step's time was over.)
func TestL4_WhoGaveUpItsPromiseEndsTheNextQuorumForAll(t *testing.T) {
	t.Parallel()
	r := standing(t, rules(1), "a", "b", "c")
	was, at := r.in["b"], r.pos["b"]
	r.commit("a")
	for _, id := range []quorum.ReplicaID{"b", "c"} {
		r.fall(id, r.prepared(id))
	}
	r.fall("a", quorum.Fact{})
	next := r.mustForm("a", "b", "c")
	r.m.Notices()
	r.in["b"], r.pos["b"] = was, at // it never had the answer
	gaveUp := r.prepared("b")
	gaveUp.Kind, gaveUp.Digests = quorum.GaveUp, nil
	r.fall("b", gaveUp)
	told := map[quorum.ReplicaID]bool{}
	for _, n := range r.m.Notices() {
		for _, id := range n.To {
			told[id] = told[id] || n.Kind == quorum.NoticeFallen && n.QuorumID == next.ID
		}
	}
	if r.m.Status(r.now).Stands || !told["a"] || !told["c"] || told["b"] {
		t.Errorf("the quorum stands %t, told of its fall %v; want that it fell, and a and c told", r.m.Status(r.now).Stands, told)
	}
}
