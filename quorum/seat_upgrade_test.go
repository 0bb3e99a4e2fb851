package quorum_test

import (
	"slices"
	"testing"

	"github.com/skerry-ft/skerry/quorum"
)

// A job between two bounds: its members were told the list, by a leader whose MaxListed was larger, and a
// new leader tells views of as many. Its quorum stands, an accusation by an id is understood, and the next
// answer has another id, whatever asks for it: under the old one members would have two names.
func TestListedMembersComeToViews(t *testing.T) {
	t.Parallel()
	const n = quorum.MaxListed + 6
	m, now, ids, q := standingCrowd(t, n)
	for i := range q.Members {
		q.Members[i].Seat = quorum.Seat{} // that leader gave none
	}
	listed := make(map[quorum.ReplicaID]*quorum.LastAnswer)
	c := &seatedCrowd{t: t, m: quorum.New(now, quorum.DefaultConfig(), m.Ledger()), now: now, number: 1, last: listed}
	for _, id := range ids {
		listed[id] = quorum.NewLastAnswer(&q)
		if len(listed[id].Members) != n {
			t.Fatalf("%s restates %d members, want the list of %d", id, len(listed[id].Members), n)
		}
		if err := c.m.Open(now, quorum.Hello{ReplicaID: id, Client: quorum.KindSkerry, Last: listed[id]}); err != nil {
			t.Fatal(err)
		}
	}
	if last := c.m.Last(); last.ID != q.ID || len(last.Members) != n {
		t.Fatalf("the new leader has quorum %d of %d, want %d of %d", last.ID, len(last.Members), q.ID, n)
	}
	dead := ids[3]
	if err := c.m.Accuse(now, quorum.Accusation{By: ids[9], Against: dead, QuorumID: q.ID, Evidence: "reset"}); err != nil {
		t.Fatal(err)
	}
	c.m.Broken(now, dead, "EOF", false)
	if s := stateOfReplica(c.m, now, dead); s != "lost" {
		t.Fatalf("%s is %s after two witnesses, want lost", dead, s)
	}
	c.next(slices.DeleteFunc(slices.Clone(ids), func(id quorum.ReplicaID) bool { return id == dead })...)
	if c.q.ID <= q.ID || len(c.q.Members) != n-1 {
		t.Errorf("the next quorum is %d of %d, want one above %d, of %d", c.q.ID, len(c.q.Members), q.ID, n-1)
	}
	c.agree()
}

// The same where all ask, and none has died: the answer has another id, too.
func TestListedMembersThatAskComeToViews(t *testing.T) {
	t.Parallel()
	const n = quorum.MaxListed + 6
	m, now, ids, q := standingCrowd(t, n)
	for i := range q.Members {
		q.Members[i].Seat = quorum.Seat{}
	}
	next := quorum.New(now, quorum.DefaultConfig(), m.Ledger())
	last := quorum.NewLastAnswer(&q)
	for _, id := range ids {
		if err := next.Open(now, quorum.Hello{ReplicaID: id, Client: quorum.KindSkerry, Last: last}); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range ids {
		j := skerryJoin(id, 2)
		j.Kind, j.Last = quorum.JoinAsk, last
		if err := next.Join(now, j); err != nil {
			t.Fatal(err)
		}
	}
	d := next.Decide(now)
	if !d.Ready || !d.Changed || d.Quorum.ID <= q.ID {
		t.Fatalf("decided %v, quorum %d, changed %v: want one above %d, for members are called otherwise in it", d.Reason, d.Quorum.ID, d.Changed, q.ID)
	}
}
