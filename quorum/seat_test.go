package quorum_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// seatedCrowd joins and forms as members that are told views do.
type seatedCrowd struct {
	t      *testing.T
	m      *quorum.Machine
	now    time.Time
	last   map[quorum.ReplicaID]*quorum.LastAnswer
	viewer *quorum.Viewer
	q      quorum.Quorum
	number uint64
}

func (c *seatedCrowd) ids() []quorum.ReplicaID {
	var ids []quorum.ReplicaID
	for _, m := range c.q.Members {
		ids = append(ids, m.ReplicaID)
	}
	return ids
}

// took notes a quorum that all its members were told.
func (c *seatedCrowd) took(q quorum.Quorum) {
	c.q, c.viewer = q, quorum.NewViewer(&q)
	c.last = make(map[quorum.ReplicaID]*quorum.LastAnswer)
	for _, m := range q.Members {
		told := c.viewer.For(m.ReplicaID)
		c.last[m.ReplicaID] = quorum.NewLastAnswer(&told)
	}
}

// next lets these join, and forms.
func (c *seatedCrowd) next(ids ...quorum.ReplicaID) {
	c.t.Helper()
	c.number++
	for _, id := range ids {
		j := skerryJoin(id, c.number+1)
		j.Kind, j.Last = quorum.JoinFall, c.last[id]
		if err := c.m.Join(c.now, j); err != nil {
			c.t.Fatal(err)
		}
	}
	d := c.m.Decide(c.now)
	if !d.Ready {
		c.t.Fatalf("no quorum: %v", d.Reason)
	}
	c.took(c.m.Form(c.now, d, quorum.Token{2}, 2))
}

// names are what a member calls all members, by rank.
func (c *seatedCrowd) names(id quorum.ReplicaID) []quorum.ReplicaID {
	c.t.Helper()
	told := c.viewer.For(id)
	a, err := quorum.Assign(&told, id, 0)
	if err != nil {
		c.t.Fatal(err)
	}
	return a.ReplicaIDs
}

// agree fails unless all members call all the same, and no two alike; it returns the
// names by id.
func (c *seatedCrowd) agree() map[quorum.ReplicaID]quorum.ReplicaID {
	c.t.Helper()
	ids := c.ids()
	want := c.names(ids[0])
	for _, id := range ids[1:] {
		if got := c.names(id); !slices.Equal(got, want) {
			c.t.Fatalf("%s and %s name the members differently", id, ids[0])
		}
	}
	of := make(map[quorum.ReplicaID]quorum.ReplicaID)
	for rank, id := range ids {
		of[id] = want[rank]
	}
	if sorted := slices.Sorted(slices.Values(want)); len(slices.Compact(sorted)) != len(ids) {
		c.t.Fatal("two members have one name")
	}
	return of
}

// Members of a quorum of more than MaxListed know each other by their seats: all
// agree on them, whoever stays keeps its own, and they are some runs, also under
// another leader. An accusation by that name is about the replica that has it.
func TestSeatsStay(t *testing.T) {
	t.Parallel()
	const n = quorum.MaxListed + 6
	m, now, ids, q := standingCrowd(t, n)
	c := &seatedCrowd{t: t, m: m, now: now, number: 1}
	c.took(q)
	first := c.agree()
	stay := func(what string, gone ...quorum.ReplicaID) {
		t.Helper()
		for id, name := range c.agree() {
			if before, known := first[id]; known && before != name && !slices.Contains(gone, id) {
				t.Fatalf("%s: %s is called %q, was %q", what, id, name, before)
			}
		}
		if runs := len(c.viewer.View(c.ids()[0]).Seats); runs > 8 {
			t.Errorf("%s: %d runs of seats, want some", what, runs)
		}
	}
	dead := ids[3]
	if err := m.Accuse(c.now, quorum.Accusation{By: ids[9], Against: first[dead], QuorumID: q.ID, Evidence: "reset"}); err != nil {
		t.Fatal(err)
	}
	m.Broken(c.now, dead, "EOF", false)
	if s := stateOfReplica(m, c.now, dead); s != "lost" {
		t.Fatalf("%s is %s after two witnesses, want lost", dead, s)
	}
	c.next(slices.DeleteFunc(slices.Clone(ids), func(id quorum.ReplicaID) bool { return id == dead })...)
	stay("one died")
	if err := m.Open(c.now, quorum.Hello{ReplicaID: "r0500:new", Client: quorum.KindSkerry}); err != nil {
		t.Fatal(err)
	}
	c.next(append(c.ids(), "r0500:new")...)
	stay("one came")

	// Another leader: the ledger has no seats, the members bring them.
	c.m = quorum.New(c.now, quorum.DefaultConfig(), m.Ledger())
	for i, id := range c.ids() {
		if i == 7 {
			continue // it is late
		}
		if err := c.m.Open(c.now, quorum.Hello{ReplicaID: id, Client: quorum.KindSkerry, Last: c.last[id]}); err != nil {
			t.Fatal(err)
		}
	}
	late := c.ids()[7]
	if err := c.m.Open(c.now, quorum.Hello{ReplicaID: late, Client: quorum.KindSkerry, Last: c.last[late]}); err != nil {
		t.Fatal(err)
	}
	c.next(c.ids()...)
	stay("another leader")
}

func stateOfReplica(m *quorum.Machine, now time.Time, id quorum.ReplicaID) string {
	for _, r := range m.Status(now).Replicas {
		if r.ReplicaID == id {
			return fmt.Sprint(r.State)
		}
	}
	return "unknown"
}

// What a replica says of an answer that was a view is checked, and a lie of one
// restores nothing that min_replicas members do not say.
func TestPartsOfLiars(t *testing.T) {
	t.Parallel()
	part := func(id quorum.ReplicaID, world int) *quorum.LastAnswer {
		return &quorum.LastAnswer{Cluster: "x", QuorumID: 5000, Round: 1, Part: &quorum.AnswerPart{
			Self: quorum.Member{ReplicaID: id, GroupWorldSize: 1}, WorldSize: world}}
	}
	for name, tc := range map[string]struct {
		said map[quorum.ReplicaID]*quorum.LastAnswer
		bad  bool
		want int // members of the last quorum
	}{
		"no world":           {said: map[quorum.ReplicaID]*quorum.LastAnswer{"a": part("a", 0)}, bad: true},
		"a world too large":  {said: map[quorum.ReplicaID]*quorum.LastAnswer{"a": part("a", quorum.MaxMembers+1)}, bad: true},
		"another's part":     {said: map[quorum.ReplicaID]*quorum.LastAnswer{"a": part("b", 1), "b": nil}},
		"fewer than must be": {said: map[quorum.ReplicaID]*quorum.LastAnswer{"a": part("a", 1)}},
		"all of two":         {said: map[quorum.ReplicaID]*quorum.LastAnswer{"a": part("a", 2), "b": part("b", 2)}, want: 2},
		"two of nine":        {said: map[quorum.ReplicaID]*quorum.LastAnswer{"a": part("a", 9), "b": part("b", 9)}, want: 2},
		"more than all":      {said: map[quorum.ReplicaID]*quorum.LastAnswer{"a": part("a", 1), "b": part("b", 1), "c": part("c", 1)}, want: 2},
	} {
		now := time.Unix(1000, 0)
		config := quorum.DefaultConfig()
		config.MinReplicas = 2
		m := quorum.New(now, config, quorum.Ledger{Cluster: "x", Job: "default"})
		for _, id := range []quorum.ReplicaID{"a", "b", "c"} {
			last, there := tc.said[id]
			if !there {
				continue
			}
			err := m.Open(now, quorum.Hello{ReplicaID: id, Client: quorum.KindSkerry, Last: last})
			if (err != nil) != tc.bad {
				t.Errorf("%s: %v", name, err)
			}
		}
		for range 12 {
			now = now.Add(config.HeartbeatTimeout / 10)
			for id := range tc.said {
				if err := m.Beat(now, id, quorum.Beat{}); err != nil && !tc.bad {
					t.Fatal(name, err)
				}
			}
		}
		got := 0
		if last := m.Last(); last != nil {
			got = len(last.Members)
		}
		if got != tc.want {
			t.Errorf("%s: a last quorum of %d members, want %d", name, got, tc.want)
		}
	}
}
