package quorum_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// trained makes a machine whose last quorum is ids, all at step 5 of it.
func trained(t *testing.T, now time.Time, min int, ids ...quorum.ReplicaID) *quorum.Machine {
	t.Helper()
	c := quorum.DefaultConfig()
	c.MinReplicas = min
	m := quorum.New(now, c, quorum.Ledger{Cluster: "x", Job: "j", HighestID: 100})
	for _, id := range ids {
		must(t, m.Open(now, quorum.Hello{ReplicaID: id, Client: quorum.KindSkerry}))
		must(t, m.Join(now, quorum.Join{
			Number: 1, Client: quorum.KindSkerry, Kind: quorum.JoinFall,
			Member: quorum.Member{ReplicaID: id, Address: "http://" + string(id), GroupWorldSize: 1},
		}))
	}
	beats(m, now, c.HeartbeatTimeout, quorum.Beat{}, ids...)
	now = now.Add(c.HeartbeatTimeout)
	d := m.Decide(now)
	if !d.Ready {
		t.Fatalf("no quorum of %v: %v", ids, d)
	}
	q := m.Form(now, d, quorum.Token{7}, 1)
	for _, id := range ids {
		m.Beat(now, id, quorum.Beat{Position: quorum.Position{Cluster: "x", Step: 5, QuorumID: q.ID}, QuorumID: q.ID})
	}
	return m
}

// beats lets d pass, in which ids beat.
func beats(m *quorum.Machine, now time.Time, d time.Duration, b quorum.Beat, ids ...quorum.ReplicaID) {
	const parts = 10
	for range parts {
		now = now.Add(d / parts)
		for _, id := range ids {
			m.Beat(now, id, b)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newcomer(t *testing.T, m *quorum.Machine, now time.Time, id quorum.ReplicaID) quorum.Sources {
	t.Helper()
	must(t, m.Open(now, quorum.Hello{ReplicaID: id, Client: quorum.KindSkerry}))
	return m.Sources(now, id, quorum.Position{})
}

func TestSourcesAreTheStandingQuorum(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	m := trained(t, now, 1, "a", "b", "c")
	now = now.Add(m.Config().HeartbeatTimeout)
	s := newcomer(t, m, now, "z")
	if len(s.Peers) != 3 || s.Max.Step != 5 || s.Token != (quorum.Token{7}) {
		t.Errorf("sources of a newcomer: %+v, want all three members at step 5, and the token", s)
	}
	firsts := make(map[quorum.ReplicaID]bool)
	for i := range 20 {
		id := quorum.ReplicaID(fmt.Sprint("n", i))
		firsts[newcomer(t, m, now, id).Peers[0].ReplicaID] = true
	}
	if len(firsts) != 3 {
		t.Errorf("20 newcomers begin at %v, want them spread over all", firsts)
	}
	for _, id := range []quorum.ReplicaID{"a", "stranger"} {
		if s := m.Sources(now, id, quorum.Position{}); len(s.Peers) != 0 {
			t.Errorf("sources of %s: %+v, want none", id, s)
		}
	}
	if s := m.Sources(now, "z", s.Max); len(s.Peers) != 0 {
		t.Errorf("sources of one who is level: %+v, want none", s)
	}
}

// At step 0 every fresh replica has bytes of its own: nothing can be copied ahead.
func TestNoSourcesAtStepZero(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	m := trained(t, now, 1, "a")
	now = now.Add(m.Config().HeartbeatTimeout)
	m.Beat(now, "a", quorum.Beat{})
	fresh := quorum.New(now, quorum.DefaultConfig(), quorum.Ledger{Cluster: "x", Job: "j", HighestID: 100})
	if s := newcomer(t, fresh, now, "z"); len(s.Peers) != 0 {
		t.Errorf("sources where there was no quorum: %+v", s)
	}
}

// Too few are left without the one that fetches: it is told, once, after a
// heartbeat timeout. Otherwise it would go on for as long as a copy takes, and
// nobody would train.
func TestWhoFetchesIsCalledWhenItIsNeeded(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	m := trained(t, now, 2, "a", "b")
	now = now.Add(m.Config().HeartbeatTimeout)
	newcomer(t, m, now, "y")
	newcomer(t, m, now, "z")
	must(t, m.Join(now, quorum.Join{
		Number: 1, Client: quorum.KindSkerry, Kind: quorum.JoinFall,
		Member: quorum.Member{ReplicaID: "y", Address: "http://y", GroupWorldSize: 1},
	}))
	m.Notices()
	m.Leave(now, "b")
	called := func() int {
		n := 0
		for _, notice := range m.Notices() {
			if notice.Kind != quorum.NoticeFallen {
				continue
			}
			if slices.Contains(notice.To, "y") {
				t.Errorf("one that has joined is called: %+v", notice)
			}
			if slices.Contains(notice.To, "z") {
				n++
			}
		}
		return n
	}
	if s := newcomer(t, m, now, "late"); len(s.Peers) != 0 {
		t.Errorf("sources in a quorum that fell: %+v", s)
	}
	m.Advance(now.Add(time.Millisecond))
	if n := called(); n != 0 {
		t.Errorf("z is called at once: another quorum may follow in a moment")
	}
	after := now.Add(m.Config().HeartbeatTimeout)
	m.Advance(after)
	if n := called(); n != 1 {
		t.Errorf("z is called %d times after a heartbeat timeout, want once", n)
	}
	m.Advance(after.Add(time.Second))
	if n := called(); n != 0 {
		t.Error("z is called again")
	}
}
