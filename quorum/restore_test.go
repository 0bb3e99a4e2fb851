package quorum_test

import (
	"slices"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// An answer that a member brings back after the ledger was lost is not told again
// if it has fewer members than there must be: it is a lie, or of older rules.
func TestQ3RestoredAnswer(t *testing.T) {
	t.Parallel()
	for members, want := range map[int]bool{1: false, 2: true} {
		now := time.Unix(1000, 0)
		c := quorum.DefaultConfig()
		c.MinReplicas = 2
		m := quorum.New(now, c, quorum.Ledger{Cluster: "x", Job: "default"})
		all := []quorum.Member{{ReplicaID: "a"}, {ReplicaID: "b"}}
		last := &quorum.LastAnswer{Cluster: "x", QuorumID: 7000, Round: 1, Members: all[:members]}
		if err := m.Open(now, quorum.Hello{ReplicaID: "a", Client: quorum.KindSkerry, Last: last}); err != nil {
			t.Fatal(err)
		}
		got := m.Status(now).Last != nil
		if got != want {
			t.Errorf("an answer of %d members is restored: %v, want %v", members, got, want)
		}
	}
}

// L1: a member whose answer was lost with its stream, and which wants nothing any more,
// hears of a joiner in the quorum in which it trains; it asks, and both are in the next.
// (It had asked, and took that back; it trained on in the older quorum, alone, kept the
// word about the newer one until it would be in that, and the joiner waited for ever.)
func TestL1_AMemberWhoseAnswerWasLostHearsOfAJoiner(t *testing.T) {
	t.Parallel()
	s, before := standingScene(t, "a", "b")
	last := &quorum.LastAnswer{Cluster: before.Cluster, QuorumID: before.ID, Round: before.Round, Members: before.Members}
	s.Leave(s.now, "b", "")
	j := skerryJoin("a", 2)
	j.Last = last
	s.join(j)
	q := s.form()
	s.Broken(s.now, "a", "cut", false)
	if err := s.Open(s.now, quorum.Hello{ReplicaID: "a", Client: quorum.KindSkerry, Last: last}); err != nil {
		t.Fatal(err)
	}
	s.open("c")
	s.Notices()
	s.join(skerryJoin("c", 1))
	var about []int64
	for _, n := range s.Notices() {
		if n.Kind == quorum.NoticeWanted && slices.Contains(n.To, "a") {
			about = append(about, n.QuorumID)
		}
	}
	if want := []int64{q.ID, before.ID}; !slices.Equal(about, want) {
		t.Errorf("a hears that c joined about the quorums %v, want %v: it is in the second", about, want)
	}
	s.ask(3, &before, "a")
	if again := s.form(); again.ID != q.ID {
		t.Fatalf("quorum %d, want the answer again that was lost: %d", again.ID, q.ID)
	}
	s.ask(4, &q, "a") // it kept the word about this one
	if q := s.form(); !slices.Equal(idsOf(&q), []quorum.ReplicaID{"a", "c"}) {
		t.Errorf("members %v, want a and c", idsOf(&q))
	}
}
