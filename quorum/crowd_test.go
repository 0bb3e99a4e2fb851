package quorum_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// messages is how many messages all notices of a kind are.
func messages(ns []quorum.Notice, kind quorum.NoticeKind) int {
	n := 0
	for _, notice := range ns {
		if notice.Kind == kind {
			n += len(notice.To)
		}
	}
	return n
}

// standingCrowd is a machine whose quorum of n stands.
func standingCrowd(t *testing.T, n int) (*quorum.Machine, time.Time, []quorum.ReplicaID, quorum.Quorum) {
	t.Helper()
	ids := make([]quorum.ReplicaID, n)
	now := time.Unix(1_700_000_000, 0)
	c := quorum.DefaultConfig()
	m := quorum.New(now, c, quorum.NewLedger("x", "default", 1000))
	for i := range ids {
		ids[i] = quorum.ReplicaID(fmt.Sprintf("r%04d", i))
		if err := m.Open(now, quorum.Hello{ReplicaID: ids[i], Client: quorum.KindSkerry}); err != nil {
			t.Fatal(err)
		}
		if err := m.Join(now, skerryJoin(ids[i], 1)); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 { // until nobody has opened a session for a heartbeat timeout
		now = now.Add(c.HeartbeatTimeout / 10)
		for _, id := range ids {
			if err := m.Beat(now, id, quorum.Beat{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	d := m.Decide(now)
	if !d.Ready || len(d.Quorum.Members) != n {
		t.Fatalf("no quorum of %d: %v", n, d.Reason)
	}
	q := m.Form(now, d, quorum.Token{1}, 1)
	m.Notices()
	return m, now, ids, q
}

// A quorum of n that falls is told in n messages, not n times n; and whoever
// joins, all are in the next one.
func TestCrowdIsToldOnce(t *testing.T) {
	t.Parallel()
	for n, most := range map[int]int{10: 45, 200: 199} {
		m, now, ids, q := standingCrowd(t, n)
		for _, id := range ids {
			j := skerryJoin(id, 2)
			j.Kind = quorum.JoinFall
			j.Last = &quorum.LastAnswer{Cluster: q.Cluster, QuorumID: q.ID, Round: q.Round}
			j.Fact = quorum.Fact{Kind: quorum.Refused, Step: 1, QuorumID: q.ID}
			if err := m.Join(now, j); err != nil {
				t.Fatal(err)
			}
		}
		got := messages(m.Notices(), quorum.NoticeFallen)
		if got < n-1 || got > most {
			t.Errorf("%d members: %d messages, want %d to %d", n, got, n-1, most)
		}
		if d := m.Decide(now); !d.Ready || len(d.Quorum.Members) != n {
			t.Errorf("%d members: %v", n, d.Reason)
		}
	}
}

// When most of a crowd dies at once, those who are left are told of some of it.
func TestCrowdIsToldOfSomeLosses(t *testing.T) {
	t.Parallel()
	const n = 300
	m, now, _, _ := standingCrowd(t, n)
	m.Advance(now.Add(11 * time.Minute)) // nobody beats, until the machine doubts itself no longer
	got := messages(m.Notices(), quorum.NoticeLost)
	if got == 0 || got > 64*n {
		t.Errorf("%d messages about losses, want 1 to %d", got, 64*n)
	}
}
