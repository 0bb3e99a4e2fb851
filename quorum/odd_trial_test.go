package quorum

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// jury is a machine whose last quorum has n members that have all trained.
func jury(n int) (*Machine, []ReplicaID) {
	now := time.Unix(1000, 0)
	q := Quorum{ID: 5, Round: 1, Cluster: "x"}
	for i := range n {
		id := ReplicaID(fmt.Sprintf("r%05d", i))
		q.Members = append(q.Members, Member{ReplicaID: id, Position: Position{Cluster: "x", Step: 10, QuorumID: 4}})
	}
	return New(now, DefaultConfig(), Ledger{Cluster: "x", Client: KindSkerry, Last: &q, HighestID: 5}), memberIDs(q.Members)
}

func say(t *testing.T, m *Machine, kind AccusationKind, by, against ReplicaID) {
	t.Helper()
	if err := m.Accuse(m.now, Accusation{By: by, Against: against, QuorumID: 5, Kind: kind, Evidence: "said"}); err != nil {
		t.Fatal(err)
	}
}

// Of one odd newcomer among a thousand all others say so: a few words are judged, and
// there is room for those who name a second one.
func TestTrialHasRoomForASecondOddOne(t *testing.T) {
	t.Parallel()
	m, ids := jury(300)
	for _, odd := range ids[298:] {
		for _, by := range ids[:298] {
			say(t, m, AccusedOdd, by, odd)
		}
	}
	if n := len(m.trial.pairs); n != 2*maxDiffered {
		t.Errorf("%d pairs are judged, want %d", n, 2*maxDiffered)
	}
	for _, odd := range ids[298:] {
		if f := m.refusalOf(odd); f == nil || f.broke != 1 {
			t.Errorf("of %s is remembered %+v, want one quorum that it broke", odd, f)
		}
	}
}

// What a replica says of itself stays, though it was found odd before, and is acquitted.
func TestTrialKeepsTheOwnWord(t *testing.T) {
	t.Parallel()
	m, ids := jury(4)
	say(t, m, AccusedOdd, ids[2], ids[3]) // 2 is odd, and 3 has the larger id
	say(t, m, AccusedUnhealed, ids[3], ids[3])
	say(t, m, AccusedOdd, ids[0], ids[2])
	say(t, m, AccusedOdd, ids[1], ids[2])
	if f := m.refusalOf(ids[3]); f == nil || f.broke != 1 {
		t.Errorf("of %s is remembered %+v, want one quorum that it broke by its failed heal", ids[3], f)
	}
	if f := m.refusalOf(ids[2]); f == nil || f.broke != 1 {
		t.Errorf("of %s is remembered %+v, want one quorum that it broke", ids[2], f)
	}
	if slices.Contains(m.trial.new, replicaName(ids[3])) {
		t.Error("it is still to be acquitted")
	}
}
