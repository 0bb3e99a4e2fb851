package quorum_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/skerry-ft/skerry/quorum"
)

// randomQuorum has members at a few positions, some of them participants.
func randomQuorum(r *rand.Rand, n int) quorum.Quorum {
	q := quorum.Quorum{Cluster: "c", Job: "j", ID: 9, Round: 2}
	steps, init := 1+r.IntN(3), r.IntN(2) == 0
	base := int64(r.IntN(2) * 5)
	for i := range n {
		m := quorum.Member{
			ReplicaID: quorum.ReplicaID(fmt.Sprintf("r%03d", i)), Address: fmt.Sprintf("http://h%d", i),
			StoreAddress: fmt.Sprintf("s%d:1", i), GroupWorldSize: 1 + r.IntN(3), InitSync: init,
			Position: quorum.Position{Step: base + int64(r.IntN(steps))}, CommitFailures: int64(r.IntN(2)),
		}
		if m.Position.Step > 0 {
			m.Position.Cluster, m.Position.QuorumID = "c", 8
		}
		q.Members = append(q.Members, m)
		if r.IntN(4) > 0 {
			q.Participants = append(q.Participants, m.ReplicaID)
		}
	}
	return q
}

// A view gives every rank the assignment that the whole list gives, but for lists
// that are cut and names that it does not have.
func TestViewAssignsAsTheListDoes(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	quorums := 60
	if testing.Short() {
		quorums = 20
	}
	for range quorums {
		q := randomQuorum(r, 1+r.IntN(150))
		viewer := quorum.NewViewer(&q)
		for _, m := range q.Members {
			cut := viewer.For(m.ReplicaID)
			if cut.Size() != len(q.Members) || !slices.Equal(cut.ParticipantRanks(), q.ParticipantRanks()) {
				t.Fatalf("size %d, participants %v; want %d, %v", cut.Size(), cut.ParticipantRanks(), len(q.Members), q.ParticipantRanks())
			}
			for groupRank := range m.GroupWorldSize {
				want, err := quorum.Assign(&q, m.ReplicaID, groupRank)
				if err != nil {
					t.Fatal(err)
				}
				got, err := quorum.Assign(&cut, m.ReplicaID, groupRank)
				if err != nil {
					t.Fatal(err)
				}
				for rank := range want.ReplicaIDs {
					if name := (quorum.Seat{QuorumID: q.ID, Rank: rank}).Name(); got.ReplicaIDs[rank] != name {
						t.Fatalf("%s: rank %d is called %q, want %q", m.ReplicaID, rank, got.ReplicaIDs[rank], name)
					}
				}
				got.ReplicaIDs, want.ReplicaIDs = nil, nil
				want.Sources = want.Sources[:min(len(want.Sources), quorum.MaxViewSources)]
				want.Targets = want.Targets[:min(len(want.Targets), quorum.MaxViewPeers)]
				want.Healing = want.Healing[:min(len(want.Healing), quorum.MaxViewPeers)]
				if !reflect.DeepEqual(want, got) { // cmp is slow, and there are 20,000
					t.Fatalf("%s of %d, group rank %d:\n%s", m.ReplicaID, len(q.Members), groupRank, cmp.Diff(want, got))
				}
			}
		}
	}
}

// A view is nobody else's, and has no ranks but its own.
func TestViewRefuses(t *testing.T) {
	t.Parallel()
	q := randomQuorum(rand.New(rand.NewPCG(3, 4)), 5)
	viewer := quorum.NewViewer(&q)
	cut := viewer.For("r001")
	if _, err := quorum.Assign(&cut, "r002", 0); err == nil {
		t.Error("another member's view was taken")
	}
	if _, err := quorum.Assign(&cut, "r001", 99); err == nil {
		t.Error("a group rank that there is not was taken")
	}
	if viewer.View("stranger") != nil {
		t.Error("a stranger has a view")
	}
}
