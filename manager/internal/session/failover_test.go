package session

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/quorum"
)

// answers serves as a leader does: a welcome, then an answer to the first join.
func answers(id int64) func(int, *scriptedStream) error {
	return func(_ int, st *scriptedStream) error {
		up, err := joinAfterWelcome(st)
		if err != nil {
			return err
		}
		return errors.Join(st.answer(up.GetJoin().GetNumber(), id), waitGone(st))
	}
}

func (st *scriptedStream) redirect(leader string, servers ...string) error {
	return st.Send(&skerrypb.Down{Message: &skerrypb.Down_Redirect{
		Redirect: wire.RedirectToProto(wire.Redirect{Leader: leader, Servers: servers})}})
}

// A server that does not lead says who does; the session goes there, and knows
// the others from then on.
func TestSessionFollowsARedirect(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNet(t)
		leader := serveScript(n, answers(5))
		follower := serveScript(n, func(_ int, st *scriptedStream) error { return st.redirect(leader, leader, "h:9") })
		s, _ := runSession(n, nil, follower)
		if q, err := s.Join(limited(t), testJoin()); err != nil || q.ID != 5 {
			t.Fatalf("join = quorum %d, %v; want 5 from the leader", q.ID, err)
		}
		if got := s.order(); got[0] != leader || !slices.Contains(got, "h:9") || !slices.Contains(got, follower) {
			t.Errorf("servers %v, want the leader first, and all that were named", got)
		}
	})
}

// Two servers that point at each other do not keep a session from a third.
func TestSessionLeavesACircle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNet(t)
		ready := make(chan string, 1)
		a := serveScript(n, func(_ int, st *scriptedStream) error {
			b := <-ready
			ready <- b
			return st.redirect(b)
		})
		ready <- serveScript(n, func(_ int, st *scriptedStream) error { return st.redirect(a) })
		s, _ := runSession(n, nil, a, serveScript(n, answers(5)))
		if q, err := s.Join(limited(t), testJoin()); err != nil || q.ID != 5 {
			t.Errorf("join = quorum %d, %v; want 5", q.ID, err)
		}
	})
}

// A leader that this replica cannot reach is reached through a server that can.
func TestSessionAsksForARelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNet(t)
		leader := n.dead()
		follower := serveScript(n, func(n int, st *scriptedStream) error {
			if !st.hello.Relay {
				return st.redirect(leader)
			}
			if st.hello.Avoid != leader {
				return st.answer(1, 666)
			}
			return answers(5)(n, st)
		})
		s, _ := runSession(n, nil, follower)
		if q, err := s.Join(limited(t), testJoin()); err != nil || q.ID != 5 {
			t.Errorf("join = quorum %d, %v; want 5 through the follower", q.ID, err)
		}
	})
}

// A server that falls silent is left for another though its connection stands,
// and the join that waited there is answered here.
func TestSessionLeavesAHungServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNet(t)
		next := serveScript(n, answers(5))
		var hung string
		lost := make(chan error, 1)
		hung = serveScript(n, func(_ int, st *scriptedStream) error {
			welcome := wire.WelcomeToProto(wire.Welcome{Cluster: "test", Servers: []string{next}, Timing: wire.Timing{
				BeatInterval: 10 * time.Millisecond, HeartbeatTimeout: time.Second, JoinTimeout: time.Second,
				ServerBeat: 10 * time.Millisecond}})
			return errors.Join(st.Send(&skerrypb.Down{Message: &skerrypb.Down_Welcome{Welcome: welcome}}), waitGone(st))
		})
		s, _ := runSession(n, func(c *Config) { c.Lost = func(err error) { lost <- err } }, hung)
		if q, err := s.Join(limited(t), testJoin()); err != nil || q.ID != 5 {
			t.Errorf("join = quorum %d, %v; want 5", q.ID, err)
		}
		if err := <-lost; !errors.Is(err, errHung) {
			t.Errorf("first stream ended by %v, want errHung", err)
		}
	})
}

// With nowhere to go, silence is no reason to leave.
func TestSessionStaysWithTheOnlyServer(t *testing.T) {
	t.Parallel()
	s := New(Config{Addresses: []string{"a:1"}})
	s.mu.timing.ServerBeat = time.Millisecond
	if limit := s.silenceLimit(); limit != 0 {
		t.Errorf("silence limit %v, want none", limit)
	}
	s.learn([]string{"a:1", "b:1"})
	if limit := s.silenceLimit(); limit != minServerSilence {
		t.Errorf("silence limit %v, want %v", limit, minServerSilence)
	}
}

// What follows a break says which server was lost, unless that one said itself
// that it no longer leads.
func TestSessionNamesTheServerItLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNet(t)
		for name, c := range map[string]struct {
			err  error
			want bool
		}{
			"hung":      {errHung, true},
			"no leader": {wire.FromStatus(wire.StatusError(wire.ErrNoLeader)), false},
			"transport": {transportError(n), true},
		} {
			s := newServers([]string{"a:1, http://b:1/", "a:1"})
			if got := s.all(); !slices.Equal(got, []string{"a:1", "b:1"}) {
				t.Fatalf("servers %q, want a:1 and b:1", got)
			}
			s.opened("a:1")
			s.broke("a:1", c.err)
			if got := s.avoid == "a:1"; got != c.want || s.relay {
				t.Errorf("%s: avoids %q, relay %t; want avoided: %t", name, s.avoid, s.relay, c.want)
			}
			if last := s.order()[1] == "a:1"; last != s.hung {
				t.Errorf("%s: order %v, want the lost one last only if it hung", name, s.order())
			}
		}
	})
}

// transportError is what a call gets whose connection cannot be made.
func transportError(n *testNet) error {
	t := n.t
	t.Helper()
	conn, err := n.dial(n.dead())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // nothing is lost with it
	_, err = skerrypb.NewLighthouseClient(conn).Info(limited(t), &skerrypb.InfoRequest{})
	return wire.FromStatus(err)
}

// Why there is no session is said of each server: one may be down, and the others refuse
// for a reason that a person must see to.
func TestSessionSaysWhatIsWrongWithEachServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNet(t)
		addresses := []string{n.dead(), n.dead()}
		s, _ := runSession(n, nil, addresses...)
		ctx := limited(t)
		for {
			err := s.OutOfReach(0)
			if err != nil && strings.Contains(err.Error(), "dial tcp "+addresses[0]) && strings.Contains(err.Error(), "dial tcp "+addresses[1]) {
				return
			}
			select {
			case <-ctx.Done():
				t.Fatalf("%v, want what both servers' ports said", err)
			case <-time.After(10 * time.Millisecond):
			}
		}
	})
}

func TestRoundErrorIsBounded(t *testing.T) {
	t.Parallel()
	if got := roundError([]string{"a", "b", "c", "d", "e", "f", "g"}).Error(); got != "a; b; c; d; e; and 2 more" {
		t.Errorf("got %q", got)
	}
}

// One that copies a state before it joins goes by the newest welcome: where that names
// other members, or none, its copying ends, as at the lighthouse's word.
func TestNewcomerIsToldThatItsSourcesChanged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNet(t)
		sources := func(ids ...quorum.ReplicaID) (s quorum.Sources) {
			for _, id := range ids {
				s.Peers = append(s.Peers, quorum.Peer{ReplicaID: id})
			}
			return s
		}
		for _, c := range []struct {
			name        string
			first, next quorum.Sources
			want        int
		}{
			{"the same in another order", sources("a", "b"), sources("b", "a"), 0},
			{"one more", sources("a", "b"), sources("a", "b", "c"), 1},
			{"another", sources("a", "b"), sources("a", "c"), 1},
			{"none any more", sources("a"), sources(), 1},
			{"none before", sources(), sources("a"), 0},
		} {
			told := 0
			s := aSession(n, func(cfg *Config) {
				cfg.Notice = func(n quorum.Notice) {
					if n.Kind == quorum.NoticeFallen && n.QuorumID == 0 {
						told++
					}
				}
			}, "a:1")
			s.opened("a:1", wire.Welcome{Sources: c.first})
			s.opened("a:1", wire.Welcome{Sources: c.next})
			if told != c.want {
				t.Errorf("%s: told %d times, want %d", c.name, told, c.want)
			}
			if got, err := s.Sources(t.Context()); err != nil || len(got.Peers) != len(c.next.Peers) {
				t.Errorf("%s: sources %v, %v, want those of the newest welcome", c.name, got, err)
			}
		}
	})
}
