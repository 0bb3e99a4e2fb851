package quorum_test

import (
	"slices"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// A claim to a higher id that comes while raft writes does not take the decision
// back: the ledger has it.
func TestClaimBetweenDecideAndForm(t *testing.T) {
	t.Parallel()
	s, first := standingScene(t, "a", "b")
	for _, id := range []quorum.ReplicaID{"a", "b"} {
		j := skerryJoin(id, 2)
		j.Last = &quorum.LastAnswer{QuorumID: first.ID, Round: first.Round, Members: first.Members}
		s.join(j)
	}
	d := s.Decide(s.now)
	if !d.Ready {
		t.Fatal(d.Reason)
	}
	claimed := d.Quorum.ID + 5
	if err := s.Open(s.now, quorum.Hello{ReplicaID: "c", Client: quorum.KindSkerry, Position: quorum.Position{Step: 1, QuorumID: claimed}}); err != nil {
		t.Fatal(err)
	}
	if q := s.Form(s.now, d, quorum.Token{1}, 1); q.ID != d.Quorum.ID {
		t.Errorf("formed %d, want %d", q.ID, d.Quorum.ID)
	}
	if got := s.Ledger().HighestID; got != claimed {
		t.Errorf("the next id rises above %d, want above %d", got, claimed)
	}
}

// The answer of a quorum that stands is told again to b, after a check of
// leadership. While that lasts the quorum falls: a's group broke. b had a join
// waiting and was not told of the fall. It is told behind the answer (C7), else it
// would wait in a new group for a until its deadline.
func TestFallBetweenDecideAndRepeat(t *testing.T) {
	t.Parallel()
	s, first := standingScene(t, "a", "b") // b's answer is lost with its stream
	s.Broken(s.now, "b", "EOF", false)
	s.open("b")
	s.join(skerryJoin("b", 1))
	d := s.Decide(s.now)
	if d.Reason.Code != quorum.ReasonRepeat {
		t.Fatal(d.Reason)
	}
	j := skerryJoin("a", 2)
	j.Last = &quorum.LastAnswer{QuorumID: first.ID, Round: first.Round, Members: first.Members}
	s.join(j)
	s.Notices()
	q := s.Form(s.now, d, quorum.Token{1}, 1)
	if st := s.Status(s.now); st.Stands {
		t.Error("the quorum stands, and a has left it")
	}
	for _, n := range s.Notices() {
		if n.Kind == quorum.NoticeFallen && n.QuorumID == q.ID && slices.Contains(n.To, "b") {
			return
		}
	}
	t.Error("b is not told that the quorum which it is answered with fell")
}

// The same where all members asked, and the answer is the one that they have: a's
// join, a fall, comes while leadership is checked. The quorum does not stand again.
func TestFallBetweenDecideAndTheSameAnswer(t *testing.T) {
	t.Parallel()
	s, first := standingScene(t, "a", "b")
	last := &quorum.LastAnswer{QuorumID: first.ID, Round: first.Round, Members: first.Members}
	for _, id := range []quorum.ReplicaID{"a", "b"} {
		j := skerryJoin(id, 2)
		j.Kind, j.Last = quorum.JoinAsk, last
		s.join(j)
	}
	d := s.Decide(s.now)
	if !d.Ready || d.Changed {
		t.Fatalf("ready %t, changed %t: %v", d.Ready, d.Changed, d.Reason)
	}
	j := skerryJoin("a", 3)
	j.Last = last
	s.join(j)
	s.Notices()
	s.Form(s.now, d, quorum.Token{1}, 1)
	if st := s.Status(s.now); st.Stands {
		t.Error("the quorum stands, and a has left it")
	}
	for _, n := range s.Notices() {
		if n.Kind == quorum.NoticeFallen && slices.Contains(n.To, "b") {
			return
		}
	}
	t.Error("b is not told that the quorum fell")
}

// A process that was stopped for long, and whose stream is open all the time, is not
// forgotten: it would have no session when it goes on, and could never be told of a
// quorum (Q6).
func TestWhoIsSilentOnAnOpenStreamIsNotForgotten(t *testing.T) {
	t.Parallel()
	s, first := standingScene(t, "a", "b", "c")
	last := &quorum.LastAnswer{QuorumID: first.ID, Round: first.Round, Members: first.Members}
	s.pass(3*time.Second, "a", "b") // c is stopped
	for _, id := range []quorum.ReplicaID{"a", "b"} {
		j := skerryJoin(id, 2)
		j.Last = last
		s.join(j)
	}
	second := s.form()
	s.pass(quorum.ForgetAfter+time.Second, "a", "b")
	if err := s.Beat(s.now, "c", quorum.Beat{QuorumID: first.ID}); err != nil {
		t.Fatalf("its beat: %v", err)
	}
	j := skerryJoin("c", 2)
	j.Last = last
	s.join(j)
	for _, id := range []quorum.ReplicaID{"a", "b"} {
		j := skerryJoin(id, 3)
		j.Kind, j.Last = quorum.JoinAsk, &quorum.LastAnswer{QuorumID: second.ID, Round: second.Round, Members: second.Members}
		s.join(j)
	}
	if d := s.Decide(s.now); !d.Ready || len(d.Quorum.Members) != 3 {
		t.Errorf("ready %t with %d members: %v", d.Ready, len(d.Quorum.Members), d.Reason)
	}
}
