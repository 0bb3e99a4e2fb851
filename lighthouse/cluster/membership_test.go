package cluster

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/skerry-ft/skerry/internal/nettest"
	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/internal/wire"
)

// cast is a membership with servers a, b, c… of which the first n vote, all
// alive, level and long there. The leader is a.
func cast(voters, spares, wanted int) *membership {
	now := time.Unix(1e9, 0)
	m := &membership{now: now, self: "a", voters: wanted, stableFor: time.Second, replaceAfter: time.Minute, lastIndex: 100,
		seen: make(map[raft.ServerID]memberView), retired: func(raft.ServerID) bool { return false }}
	for i := range voters + spares {
		id := string(rune('a' + i))
		s := raft.Server{ID: raft.ServerID(id), Address: raft.ServerAddress(id + ":2")}
		if i >= voters {
			s.Suffrage = raft.Nonvoter
		}
		m.servers = append(m.servers, s)
		m.see(id, func(*memberView) {})
	}
	return m
}

// see alters what is known of a server, which is all well so far.
func (m *membership) see(id string, change func(*memberView)) {
	v, known := m.seen[raft.ServerID(id)]
	if !known {
		v = memberView{RPC: id + ":1", Raft: id + ":2", Alive: true, Since: m.now.Add(-time.Hour), Acked: 100, AckedAt: m.now}
	}
	change(&v)
	m.seen[raft.ServerID(id)] = v
}

func gone(m *membership, id string, since time.Duration) {
	m.see(id, func(v *memberView) {
		v.Alive, v.Since, v.AckedAt = false, m.now.Add(-since), m.now.Add(-since)
	})
}

// plan is a situation, and the change that is to be made in it.
type plan struct {
	name                   string
	voters, spares, wanted int
	change                 func(*membership)
	want                   string // kind and id, or a part of the reason why there is none
}

// plansOfJoiners are about who comes, and who is to vote.
func plansOfJoiners() []plan {
	return []plan{
		{"all is well", 3, 0, 3, nil, "all voters are there"},
		{"a new server enters without a vote", 3, 0, 3, func(m *membership) { m.see("d", func(*memberView) {}) }, "add d"},
		{"though a voter is away", 3, 0, 3, func(m *membership) { m.see("d", func(*memberView) {}); gone(m, "b", time.Second) }, "add d"},
		{"one that was taken out does not", 3, 0, 3, func(m *membership) {
			m.see("d", func(*memberView) {})
			m.retired = func(id raft.ServerID) bool { return id == "d" }
		}, "all voters are there"},
		{"two voters would be worse than one", 1, 1, 3, nil, "1 of 3 voters"},
		{"but three are better", 1, 2, 3, nil, "promote b"},
		{"and from two, one is enough", 2, 1, 3, nil, "promote c"},
		{"from three to five", 3, 2, 5, nil, "promote d"},
		{"not with one", 3, 1, 5, nil, "3 of 5 voters"},
		{"not one that is behind", 1, 2, 3, func(m *membership) { m.see("b", func(v *memberView) { v.Acked = 10 }) }, "1 of 3 voters"},
		{"not one that has just come", 1, 2, 3, func(m *membership) { m.see("c", func(v *memberView) { v.Since = m.now }) }, "1 of 3 voters"},
		{"not one that never votes", 1, 2, 3, func(m *membership) { m.see("c", func(v *memberView) { v.NonVoter = true }) }, "1 of 3 voters"},
		{"not while a voter is away", 2, 1, 3, func(m *membership) { gone(m, "b", time.Second) }, "voters are away: b"},
		{"nor one that gossip sees and raft does not hear", 2, 1, 3, func(m *membership) {
			m.see("b", func(v *memberView) { v.AckedAt = m.now.Add(-time.Minute) })
		}, "voters are away: b"},
	}
}

// plansOfTheGone are about who stays away, and who moved.
func plansOfTheGone() []plan {
	return []plan{
		{"a stopped voter keeps its place", 3, 1, 3, func(m *membership) { gone(m, "b", time.Second) }, "voters are away: b"},
		{"a gone one is replaced first", 3, 1, 3, func(m *membership) { gone(m, "b", time.Hour) }, "promote d"},
		{"and goes then", 4, 0, 3, func(m *membership) { gone(m, "b", time.Hour) }, "remove b"},
		{"without a spare it stays", 3, 0, 3, func(m *membership) { gone(m, "b", time.Hour) }, "no spare"},
		{"while another is away it stays", 3, 1, 3, func(m *membership) {
			gone(m, "b", time.Hour)
			gone(m, "c", time.Second)
		}, "others are away that may be back: c"},
		{"two gone of five: the first is replaced", 5, 2, 5, func(m *membership) {
			gone(m, "b", time.Hour)
			gone(m, "c", time.Hour)
		}, "promote f"},
		{"and goes", 6, 1, 5, func(m *membership) {
			gone(m, "b", time.Hour)
			gone(m, "c", time.Hour)
		}, "remove b"},
		{"then the second", 5, 1, 5, func(m *membership) { gone(m, "c", time.Hour) }, "promote f"},
		{"two of five, and one may be back", 5, 2, 5, func(m *membership) {
			gone(m, "b", time.Hour)
			gone(m, "c", time.Second)
		}, "may be back: c"},
		{"two of five without a spare", 5, 0, 5, func(m *membership) {
			gone(m, "b", time.Hour)
			gone(m, "c", time.Hour)
		}, "no spare"},
		{"not if the majority needed the spare's vote and had it not", 6, 1, 7, func(m *membership) {
			for _, id := range []string{"b", "c", "d", "e"} {
				gone(m, id, time.Hour)
			}
		}, "3 of 7"},
		{"a voter whose address has another server is gone at once", 3, 1, 3, func(m *membership) {
			gone(m, "b", 0)
			m.see("d", func(v *memberView) { v.RPC = "b:1" })
		}, "promote d"},
		{"a spare that is gone is dropped", 3, 1, 3, func(m *membership) { gone(m, "d", time.Hour) }, "remove d"},
		{"a server that moved is followed", 3, 0, 3, func(m *membership) { m.see("b", func(v *memberView) { v.Raft = "b:9" }) }, "move b"},
		{"the leader itself too", 3, 0, 3, func(m *membership) { m.see("a", func(v *memberView) { v.Raft = "a:9" }) }, "move a"},
		{"not while a voter is away, though", 3, 0, 3, func(m *membership) {
			m.see("b", func(v *memberView) { v.Raft = "b:9" })
			gone(m, "c", time.Second)
		}, "voters are away: c"},
		{"more voters than wanted are no reason to lose one", 5, 0, 3, nil, "all voters are there"},
	}
}

// Each change that a leader makes, and each that it must not make yet.
func TestMembershipChanges(t *testing.T) {
	t.Parallel()
	for _, tc := range append(plansOfJoiners(), plansOfTheGone()...) {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			m := cast(tc.voters, tc.spares, tc.wanted)
			if tc.change != nil {
				tc.change(m)
			}
			next := m.next()
			got := next.Why
			if next.Kind != changeNone {
				got = fmt.Sprintf("%s %s", next.Kind, next.ID)
			}
			if !strings.Contains(got, tc.want) {
				t.Errorf("%s (%s), want %s", got, next.Why, tc.want)
			}
		})
	}
}

func TestRemovable(t *testing.T) {
	t.Parallel()
	m := cast(3, 1, 3)
	if err := m.removable("b"); err != nil {
		t.Errorf("a voter among healthy ones: %v", err)
	}
	gone(m, "c", time.Second)
	if err := m.removable("b"); err == nil || !strings.Contains(err.Error(), "voters are away: c") {
		t.Errorf("a voter while another is away: %v", err)
	}
	if err := errors.Join(m.removable("c"), m.removable("d")); err != nil {
		t.Errorf("the one that is away, and a spare: %v", err)
	}
	if err := cast(1, 1, 1).removable("a"); err == nil {
		t.Error("the only voter may go")
	}
}

// A connection that does not mean this server of this cluster is closed before
// raft reads a byte of it.
func TestRaftConnectionsSayWhomTheyMean(t *testing.T) {
	t.Parallel()
	why, taken := make(chan error, 1), make(chan net.Conn, 1)
	listening := func(limit time.Duration) net.Addr {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s := newRaftStream(listener, wire.Server{Cluster: "one", RaftID: "me"}, limit,
			func(_ net.Addr, err error) { why <- err })
		var accepting sync.WaitGroup
		accepting.Go(func() {
			for {
				conn, err := s.Accept()
				if err != nil {
					return
				}
				taken <- conn
			}
		})
		t.Cleanup(func() {
			_ = s.Close() // the test is over
			accepting.Wait()
		})
		return listener.Addr()
	}
	// Who says all that there is to say may take his time.
	patient, hasty := listening(testkit.Patience), listening(100*time.Millisecond)
	for _, tc := range []struct {
		at                   net.Addr
		words, refused, read string
	}{
		{patient, raftMagic + "one\nme\nhello", "", "hello"},
		{patient, raftMagic + "two\nme\nhello", `of cluster "two"`, ""},
		{patient, raftMagic + "one\nyou\nhello", `means server "you"`, ""},
		{patient, "GET / HTTP/1.1\r\n\r\n", "no raft preamble", ""},
		{patient, raftMagic + strings.Repeat("x", 1000), "over 64 bytes", ""},
		{hasty, raftMagic + "one\n", "first words", ""},
		{hasty, "", "first words", ""},
	} {
		client, err := net.Dial("tcp", tc.at.String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(client, tc.words); err != nil {
			t.Fatal(err)
		}
		select {
		case conn := <-taken:
			got := make([]byte, len("hello"))
			n, err := io.ReadFull(conn, got)
			if tc.refused != "" || string(got[:n]) != tc.read {
				t.Errorf("%.40q: read %q, %v", tc.words, got[:n], err)
			}
			_ = conn.Close() // served
			if conn.(*raftConn).forget() {
				t.Errorf("%.40q: the closed connection is remembered", tc.words)
			}
		case err := <-why:
			if tc.refused == "" || !strings.Contains(err.Error(), tc.refused) {
				t.Errorf("%.40q: refused because %v, want %q", tc.words, err, tc.refused)
			}
			_ = client.SetReadDeadline(time.Now().Add(testkit.Patience))
			if n, err := client.Read(make([]byte, 1)); n > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%.40q: it is not closed: %v", tc.words, err)
			}
		}
		_ = client.Close() // served
	}
}

// slowToClose is a listener whose connections take a while to be closed.
type slowToClose struct {
	net.Listener

	closed chan struct{} // has one for each that is
}

func (l slowToClose) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return slowConn{conn, l.closed}, nil
}

type slowConn struct {
	net.Conn

	closed chan struct{}
}

func (c slowConn) Close() error {
	<-time.After(time.Second)
	err := c.Conn.Close()
	c.closed <- struct{}{}
	return err
}

// When Close has returned, what raft was given is cut: a promise that the disk does not
// take any more is told to no candidate.
func TestClosedRaftStreamTellsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		host := nettest.New().Host("both")
		listener, err := host.Listen("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		closed := make(chan struct{}, 1)
		s := newRaftStream(slowToClose{listener, closed}, wire.Server{Cluster: "one", RaftID: "me"}, time.Second,
			func(_ net.Addr, err error) { t.Errorf("refused: %v", err) })
		s.dial = host.Dial
		client, err := s.Dial(raft.ServerAddress("me@"+listener.Addr().String()), time.Second)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		if _, err := s.Accept(); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if len(closed) == 0 {
			t.Error("Close returned before the connection was cut")
		}
	})
}
