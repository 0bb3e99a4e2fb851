package quorum_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/skerry-ft/skerry/quorum"
)

// quorumAt makes a quorum whose members a, b, c, … stand at the given steps.
func quorumAt(mode func(*quorum.Member), steps ...int64) *quorum.Quorum {
	q := &quorum.Quorum{Cluster: "x", Job: "default", ID: 9, Round: 2}
	for i, step := range steps {
		id := quorum.ReplicaID(rune('a' + i))
		m := quorum.Member{
			ReplicaID: id, Address: "http://" + string(id), StoreAddress: string(id) + ":1", GroupWorldSize: 4,
			Position: quorum.Position{Step: step},
		}
		if mode != nil {
			mode(&m)
		}
		q.Members = append(q.Members, m)
		q.Participants = append(q.Participants, id)
	}
	return q
}

func plain(*quorum.Member)             {}
func initSync(m *quorum.Member)        { m.InitSync = true }
func names(peers []quorum.Peer) string { return fmt.Sprint(peerNames(peers)) }

// torchft's compute_quorum_results (its src/manager.rs), and where we differ at step 0.
func TestAssignWhoHealsFromWhom(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		mode      func(*quorum.Member)
		steps     []int64
		id        quorum.ReplicaID
		groupRank int
		store     string
		heal      bool
		sources   string
		targets   string
		maxRank   int
		max       int
	}{
		{"all level", plain, []int64{3, 3, 3}, "b", 0, "a:1", false, "", "", 1, 3},
		{"store rotates per group rank", plain, []int64{3, 3, 3}, "b", 2, "c:1", false, "", "", 1, 3},
		{"store rotates over the up to date", plain, []int64{1, 3, 3}, "b", 2, "b:1", false, "", " a", 0, 2},
		{"first heals from first", plain, []int64{0, 5, 5, 0}, "a", 0, "b:1", true, " b c", "", -1, 2},
		{"second heals from second", plain, []int64{0, 5, 5, 0}, "d", 0, "b:1", true, " c b", "", -1, 2},
		{"sources rotate per group rank", plain, []int64{0, 5, 5, 0}, "a", 1, "c:1", true, " c b", "", -1, 2},
		{"targets of the first donor", plain, []int64{0, 5, 5, 0}, "b", 0, "b:1", false, "", " a", 0, 2},
		{"targets rotate per group rank", plain, []int64{0, 5, 5, 0}, "b", 1, "c:1", false, "", " d", 0, 2},
		{"three on two donors", plain, []int64{0, 5, 1, 5, 2}, "b", 0, "b:1", false, "", " a e", 0, 2},
		{"step 0 without init sync", plain, []int64{0, 0}, "b", 0, "a:1", false, "", "", 1, 2},
		{"step 0 with init sync", initSync, []int64{0, 0, 0}, "b", 0, "a:1", true, " a", "", 1, 3},
		{"one source for all group ranks", initSync, []int64{0, 0, 0}, "b", 1, "b:1", true, " a", "", 1, 3},
		{"init sync's donor serves all", initSync, []int64{0, 0, 0}, "a", 1, "b:1", false, "", " b c", 0, 3},
		{"init sync ends with step 0", initSync, []int64{1, 1, 0}, "b", 0, "a:1", false, "", "", 1, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a, err := quorum.Assign(quorumAt(c.mode, c.steps...), c.id, c.groupRank)
			if err != nil {
				t.Fatal(err)
			}
			got := fmt.Sprint(a.StoreAddress, a.Heal, names(a.Sources), names(a.Targets), a.MaxRank, a.FirstParticipants)
			want := fmt.Sprint(c.store, c.heal, c.sources, c.targets, c.maxRank, c.max)
			if got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

// C1: two members at one step of different quorums, or of different clusters,
// are not level; exactly one set of bytes is up to date.
func TestAssignComparesPositionsNotSteps(t *testing.T) {
	t.Parallel()
	q := quorumAt(plain, 5, 5, 5)
	q.Members[0].Position = quorum.Position{Cluster: "x", Step: 5, QuorumID: 7}
	q.Members[1].Position = quorum.Position{Cluster: "y", Step: 5, QuorumID: 8}
	q.Members[2].Position = quorum.Position{Cluster: "x", Step: 5, QuorumID: 8}
	for id, heals := range map[quorum.ReplicaID]bool{"a": true, "b": true, "c": false} {
		a, err := quorum.Assign(q, id, 0)
		if err != nil {
			t.Fatal(err)
		}
		if a.Heal != heals || a.Max != q.Members[2].Position {
			t.Errorf("%s: heal = %t to %v, want %t to %v", id, a.Heal, a.Max, heals, q.Members[2].Position)
		}
	}
}

// Whatever the steps: each member that heals has one first source, which has it
// as its target, and every donor is among its sources once.
func TestAssignSourcesAndTargetsAgree(t *testing.T) {
	t.Parallel()
	for pattern := range 1 << 6 {
		steps := make([]int64, 6)
		for i := range steps {
			steps[i] = int64(pattern >> i & 1)
		}
		for _, mode := range []func(*quorum.Member){plain, initSync} {
			for rank := range 4 {
				checkAgreement(t, quorumAt(mode, steps...), rank)
			}
		}
	}
}

func checkAgreement(t *testing.T, q *quorum.Quorum, groupRank int) {
	t.Helper()
	first := map[quorum.ReplicaID]quorum.ReplicaID{}
	targets := map[quorum.ReplicaID]quorum.ReplicaID{}
	donors := 0
	for _, m := range q.Members {
		a, err := quorum.Assign(q, m.ReplicaID, groupRank)
		if err != nil {
			t.Fatal(err)
		}
		if a.Donor == a.Heal {
			t.Errorf("%s: donor %t, heal %t", m.ReplicaID, a.Donor, a.Heal)
		}
		if a.Donor {
			donors++
		}
		if a.Heal {
			first[m.ReplicaID] = a.Sources[0].ReplicaID
		}
		for _, p := range a.Targets {
			targets[p.ReplicaID] = m.ReplicaID
		}
	}
	if diff := cmp.Diff(first, targets); diff != "" {
		t.Errorf("group rank %d of %v: first sources and targets differ:\n%s", groupRank, q.Members, diff)
	}
	for id := range first {
		if a, _ := quorum.Assign(q, id, groupRank); len(a.Sources) != donors {
			t.Errorf("%s has %d sources, want all %d donors", id, len(a.Sources), donors)
		}
	}
}

func TestAssignTellsTheRest(t *testing.T) {
	t.Parallel()
	q := quorumAt(plain, 4, 4, 1)
	q.Participants = []quorum.ReplicaID{"a"}
	q.Members[2].CommitFailures = 3
	a, err := quorum.Assign(q, "b", 1)
	if err != nil {
		t.Fatal(err)
	}
	want := quorum.Assignment{
		QuorumID: 9, Round: 2, ReplicaRank: 1, ReplicaWorldSize: 3, ParticipantRank: -1, Divisor: 1,
		StoreAddress: "b:1", Primary: "b", Max: quorum.Position{Step: 4}, Position: quorum.Position{Step: 4},
		Targets: []quorum.Peer{{ReplicaID: "c", Rank: 2, Address: "http://c"}},
		Healing: []quorum.Peer{{ReplicaID: "c", Rank: 2, Address: "http://c"}},
		Donor:   true, CommitFailures: 3, ReplicaIDs: []quorum.ReplicaID{"a", "b", "c"}, FirstParticipants: 2, MaxRank: 1,
	}
	if diff := cmp.Diff(want, a); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got, want := quorum.StorePrefix(q, 1), "skerry/x/default/9/1"; got != want {
		t.Errorf("prefix = %q, want %q", got, want)
	}
	if _, err := quorum.Assign(q, "z", 0); !errors.Is(err, quorum.ErrNotMember) {
		t.Errorf("a stranger: %v, want ErrNotMember", err)
	}
	for _, rank := range []int{-1, 4} {
		if _, err := quorum.Assign(q, "a", rank); !errors.Is(err, quorum.ErrInvalid) {
			t.Errorf("group rank %d: %v, want ErrInvalid", rank, err)
		}
	}
}
