package quorum_test

import (
	"testing"

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
