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
	m.Leave(now, "b", "")
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

// The only member hangs between two steps, where its state is not there to be
// copied: the quorum falls after ten times StuckAfter, and who fetches is called.
// A copy that comes on, and a member that moves, let the quorum stand.
func TestWhoFetchesFromOneThatHangsIsCalled(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name         string
		comes, moves bool
		want         int
	}{
		{"nothing comes", false, false, 1}, {"the copy comes on", true, false, 0}, {"the member moves", false, true, 0},
	} {
		now := time.Unix(1000, 0)
		m := trained(t, now, 1, "a")
		id := m.Last().ID
		now = now.Add(m.Config().HeartbeatTimeout)
		newcomer(t, m, now, "z")
		called := 0
		for i := range uint64(10*m.Config().StuckAfter/(100*time.Millisecond)) + 30 {
			now = now.Add(100 * time.Millisecond)
			own := quorum.Beat{Position: quorum.Position{Cluster: "x", Step: 5, QuorumID: id}, QuorumID: id}
			its := quorum.Beat{Phase: quorum.PhaseHealing, Progress: 1}
			if c.moves {
				own.Progress = i
			}
			if c.comes {
				its.Progress = i
			}
			m.Beat(now, "a", own)
			m.Beat(now, "z", its)
			called += calls(m, "z")
		}
		if called != c.want {
			t.Errorf("%s: z is called %d times, want %d", c.name, called, c.want)
		}
	}
}

// C1 at rest: a member that has to heal where it is gives nothing to a newcomer until
// it has committed.
func TestSourcesAreNotWhoDiffers(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	m := trained(t, now, 1, "a", "b", "c")
	now = now.Add(m.Config().HeartbeatTimeout)
	before := m.Last()
	at := quorum.Position{Cluster: "x", Step: 5, QuorumID: before.ID}
	for _, id := range []quorum.ReplicaID{"a", "b", "c"} {
		must(t, m.Join(now, quorum.Join{
			Number: 2, Client: quorum.KindSkerry, Kind: quorum.JoinAsk, LastDigests: digest(5),
			Member: quorum.Member{
				ReplicaID: id, Address: "http://" + string(id), GroupWorldSize: 1, Position: at, CommitFailures: 1, Differs: id == "b",
			},
			Last: &quorum.LastAnswer{Cluster: "x", QuorumID: before.ID, Round: before.Round, Members: before.Members},
		}))
	}
	d := m.Decide(now)
	if !d.Ready {
		t.Fatalf("no quorum: %v", d.Reason)
	}
	q := m.Form(now, d, quorum.Token{8}, 1)
	named := func(s quorum.Sources) bool {
		return slices.ContainsFunc(s.Peers, func(p quorum.Peer) bool { return p.ReplicaID == "b" })
	}
	if s := newcomer(t, m, now, "z"); len(s.Peers) != 2 || named(s) {
		t.Errorf("sources %+v, want a and c, whose state is that of the quorum", s)
	}
	for _, id := range []quorum.ReplicaID{"a", "b", "c"} {
		must(t, m.Beat(now, id, quorum.Beat{Position: quorum.Position{Cluster: "x", Step: 6, QuorumID: q.ID}, QuorumID: q.ID}))
	}
	if s := m.Sources(now, "z", quorum.Position{}); !named(s) {
		t.Errorf("sources %+v, want b too, now that it has committed", s)
	}
}

// calls counts the notices that call a replica, and takes all.
func calls(m *quorum.Machine, id quorum.ReplicaID) (n int) {
	for _, notice := range m.Notices() {
		if notice.Kind == quorum.NoticeFallen && slices.Contains(notice.To, id) {
			n++
		}
	}
	return n
}

// All donors of one that copies are out of the quorum that is formed: it is called,
// for they may give it nothing any more. While one stays it copies on.
func TestWhoCopiesFromNoMemberIsCalled(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		members []quorum.ReplicaID
		want    int
	}{{[]quorum.ReplicaID{"a"}, 1}, {[]quorum.ReplicaID{"a", "b"}, 0}} {
		now := time.Unix(1000, 0)
		m := trained(t, now, 1, c.members...)
		now = now.Add(m.Config().HeartbeatTimeout)
		newcomer(t, m, now, "z")
		for _, id := range []quorum.ReplicaID{"b", "c"} {
			must(t, m.Open(now, quorum.Hello{ReplicaID: id, Client: quorum.KindSkerry}))
		}
		m.Leave(now, "a", "")
		for _, id := range []quorum.ReplicaID{"b", "c"} {
			must(t, m.Join(now, quorum.Join{
				Number: 9, Client: quorum.KindSkerry, Kind: quorum.JoinFall,
				Member: quorum.Member{ReplicaID: id, Address: "http://" + string(id), GroupWorldSize: 1},
			}))
		}
		m.Notices()
		for range m.Config().JoinTimeout/(100*time.Millisecond) + 5 {
			now = now.Add(100 * time.Millisecond)
			for _, id := range []quorum.ReplicaID{"b", "c", "z"} {
				m.Beat(now, id, quorum.Beat{})
			}
		}
		d := m.Decide(now)
		if !d.Ready {
			t.Fatalf("no quorum: %v", d.Reason)
		}
		m.Notices()
		m.Form(now, d, quorum.Token{8}, 1)
		if called := calls(m, "z"); called != c.want {
			t.Errorf("donors %v: z is called %d times, want %d", c.members, called, c.want)
		}
	}
}

// The same where the ledger is of an older disk, and the members tell which quorum they
// are in.
func TestWhoCopiesFromAMemberOfLongAgoIsCalled(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		members string
		want    int
	}{{"ad", 1}, {"abd", 0}} {
		now := time.Unix(1000, 0)
		m := trained(t, now, 1, "b")
		now = now.Add(m.Config().HeartbeatTimeout)
		if s := newcomer(t, m, now, "z"); len(s.Peers) != 1 {
			t.Fatalf("sources %+v, want b", s)
		}
		m.Notices()
		last := &quorum.LastAnswer{Cluster: "x", QuorumID: m.Last().ID + 5, Round: 1}
		for _, id := range c.members {
			last.Members = append(last.Members, quorum.Member{ReplicaID: quorum.ReplicaID(id), GroupWorldSize: 1})
		}
		must(t, m.Open(now, quorum.Hello{ReplicaID: "a", Client: quorum.KindSkerry, Last: last}))
		if called := calls(m, "z"); called != c.want {
			t.Errorf("members %s: z is called %d times, want %d", c.members, called, c.want)
		}
	}
}
