package lighthouse_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/internal/wire/torchftpb"
	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
	"github.com/skerry-ft/skerry/quorum"
)

// three starts a cluster whose jobs want two replicas, and returns the leader and
// the others.
func three(t testing.TB) (l *lighthousetest.Server, others []*lighthousetest.Server) {
	t.Helper()
	c := startCluster(t, 3, lighthousetest.Options{Timing: "slow",
		Change: func(_ int, c *lighthouse.Config) {
			lighthousetest.Patient(c)
			c.Rules.MinReplicas, c.Raft.Lease = 2, c.Raft.Heartbeat // as long as it may be: who leads is to lead on
		}})
	l = c.Servers[c.Leader()]
	for _, i := range c.Followers() {
		others = append(others, c.Servers[i])
	}
	return l, others
}

// torchft's clients know one address: any server's will do, and a call that
// waits there is answered once, though the leader goes meanwhile.
func TestFollowersForwardTorchftCalls(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		l, others := three(t)
		ctx, a := torchft(t, others[0])
		_, b := torchft(t, others[1])
		for id, c := range map[string]torchftpb.LighthouseServiceClient{"a": a, "b": b} {
			heartbeats(t, ctx, c, id)
		}
		qa, qb := ask(ctx, a, "a", 0), ask(ctx, b, "b", 0)
		first, same := get(t, "a", qa), get(t, "b", qb)
		if got := participants(first); !slices.Equal(got, []string{"a", "b"}) || same.GetQuorumId() != first.GetQuorumId() {
			t.Fatalf("quorums %d and %d with %v, want one of a and b", first.GetQuorumId(), same.GetQuorumId(), got)
		}
		qa = ask(ctx, a, "a", 1)
		testkit.Eventually(t, "a's call waits at the leader", func() bool { return replicaStatus(t, l, "a").State == "joined" })
		if err := l.Stop(); err != nil {
			t.Fatal(err)
		}
		qb = ask(ctx, b, "b", 1)
		if got := get(t, "a's call over the change", qa); got.GetQuorumId() != first.GetQuorumId() {
			t.Errorf("a: quorum %d after %d, want the same: nobody has gone", got.GetQuorumId(), first.GetQuorumId())
		}
		if got := get(t, "b's call over the change", qb); got.GetQuorumId() != first.GetQuorumId() {
			t.Errorf("b: quorum %d after %d, want the same: nobody has gone", got.GetQuorumId(), first.GetQuorumId())
		}
	})
}

// What was passed on once is served or refused, so nothing goes in circles.
func TestHoppedCallsAreNotPassedOn(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		_, others := three(t)
		ctx, c := torchft(t, others[0])
		marked := metadata.AppendToOutgoingContext(ctx, "skerry-hop", "1")
		_, err := c.Heartbeat(marked, &torchftpb.LighthouseHeartbeatRequest{ReplicaId: "a"})
		if status.Code(err) != codes.Unavailable || !errors.Is(wire.FromStatus(err), wire.ErrNoLeader) {
			t.Errorf("hopped call at a follower: %v, want Unavailable for want of a leader", err)
		}
		r, h := rawOpenWith(t, marked, others[0]), hello("a")
		h.GroupWorldSize = 1
		r.send(&skerrypb.Up{Message: &skerrypb.Up_Hello{Hello: wire.HelloToProto(h)}})
		if err := r.end(); !errors.Is(wire.FromStatus(err), wire.ErrNoLeader) {
			t.Errorf("hopped session at a follower: %v, want no leader", err)
		}
	})
}

// rawOpenWith is rawOpen with a context's metadata.
func rawOpenWith(t testing.TB, ctx context.Context, l *lighthousetest.Server) *replica {
	t.Helper()
	ctx, kill := context.WithCancel(context.WithoutCancel(ctx))
	t.Cleanup(kill)
	stream, err := skerrypb.NewLighthouseClient(dial(t, l.Addr)).Session(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return receiving(t, stream, kill)
}

// A follower sends a session to the leader, and names all servers.
func TestFollowersRedirectSessions(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		l, others := three(t)
		r, _ := rawHello(t, others[0], "a")
		down := r.next("a redirect", func(*skerrypb.Down) bool { return true })
		to, err := wire.RedirectFromProto(down.GetRedirect())
		if err != nil || to.Leader != l.Addr || len(to.Servers) != 3 {
			t.Errorf("redirect %+v, error %v; want to %s, of three servers", to, err, l.Addr)
		}
		if _, w := open(t, dial(t, l.Addr), hello("a")); len(w.Servers) != 3 || w.ServerBeat == 0 {
			t.Errorf("welcome %+v, want three servers, and beats of theirs", w)
		}
	})
}

// A replica that has just lost the leader is held until there is another one.
func TestRedirectAvoidsTheServerJustLost(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		l, others := three(t)
		h := hello("a")
		h.GroupWorldSize, h.Avoid = 1, l.Addr
		r := rawOpen(t, dial(t, others[0].Addr))
		r.send(&skerrypb.Up{Message: &skerrypb.Up_Hello{Hello: wire.HelloToProto(h)}})
		if err := l.Stop(); err != nil {
			t.Fatal(err)
		}
		down := r.next("a word", func(*skerrypb.Down) bool { return true })
		leader := down.GetRedirect().GetLeader()
		if down.GetWelcome() == nil && leader != others[1].Addr {
			t.Errorf("told %v, want a welcome, or a redirect to %s", down, others[1].Addr)
		}
	})
}

// A session is passed on to a leader that its replica cannot reach, both ways;
// its end there is one witness, the relay's own end is none. The leader counts the word of
// it as a message.
func TestFollowersRelaySessions(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		l, others := three(t)
		relayed := func(id quorum.ReplicaID) *replica {
			h := hello(id)
			h.Avoid, h.Relay = l.Addr, true
			r, _ := open(t, dial(t, others[0].Addr), h)
			return r
		}
		a, b, c := relayed("a"), relayed("b"), relayed("c")
		var q quorum.Quorum
		all := []*replica{a, b, c}
		for _, r := range all {
			r.join(quorum.JoinFall, nil)
		}
		for _, r := range all {
			q = r.answer(1)
		}
		if len(q.Members) != 3 {
			t.Fatalf("quorum %d has %v, want a, b and c", q.ID, memberIDs(q))
		}
		c.kill()
		testkit.Eventually(t, "c's end is seen", func() bool {
			st := replicaStatus(t, l, "c").State
			return st == "suspect" || st == "lost"
		})
		const counted = `skerry_lighthouse_messages_total{kind="relay_end"} 1`
		if _, body := fetch(t, http.MethodGet, l.URL("/metrics"), nil); !strings.Contains(body, counted+"\n") {
			t.Errorf("the leader's metrics do not say %q", counted)
		}
		if err := others[0].Stop(); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, "the relayed sessions are gone", func() bool { return !replicaStatus(t, l, "a").Session })
		st := replicaStatus(t, l, "a")
		if st.State == "suspect" || st.State == "lost" {
			t.Errorf("a is %s (%s) because its relay ended", st.State, st.Why)
		}
	})
}

// Any server shows the status, and takes operators' wishes.
func TestFollowersForwardHTTPAndAdmin(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		l, others := three(t)
		r, _ := open(t, dial(t, l.Addr), hello("a"))
		for _, s := range others {
			code, body := fetch(t, "GET", s.URL("/status.json"), nil)
			if code != 200 || !slices.Contains(statusReplicas(t, body), "a") {
				t.Errorf("status of a follower: %d %s, want the leader's", code, body)
			}
		}
		code, body := fetch(t, "POST", others[0].URL("/jobs/default/replicas/a/drain"), nil)
		if code != http.StatusNoContent {
			t.Errorf("drain through a follower: %d %s", code, body)
		}
		r.next("the drain", func(d *skerrypb.Down) bool { return d.GetDrain() != nil })
		code, _ = fetch(t, "POST", others[0].URL("/jobs/default/replicas/a/drain"), map[string]string{"Origin": "http://elsewhere.example"})
		if code != http.StatusForbidden {
			t.Errorf("a foreign site's drain through a follower: %d, want forbidden", code)
		}
		operator := skerrypb.NewLighthouseClient(dial(t, others[1].Addr))
		if _, err := operator.Evict(t.Context(), &skerrypb.EvictRequest{ReplicaId: "a", Reason: "by hand"}); err != nil {
			t.Errorf("evict through a follower: %v", err)
		}
		_, err := operator.Evict(t.Context(), &skerrypb.EvictRequest{ReplicaId: "nobody"})
		if !errors.Is(wire.FromStatus(err), quorum.ErrUnknown) {
			t.Errorf("evict of nobody through a follower: %v, want quorum.ErrUnknown", err)
		}
		info, err := operator.Info(t.Context(), &skerrypb.InfoRequest{})
		if err != nil || info.GetLeader() != l.Addr || len(info.GetServers()) != 3 {
			t.Errorf("info from a follower: %v, %v; want the leader %s", info, err, l.Addr)
		}
	})
}

// statusReplicas are the replicas that a status shows.
func statusReplicas(t testing.TB, body string) []string {
	t.Helper()
	var st lighthouse.Status
	if err := json.Unmarshal([]byte(body), &st); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, j := range st.Jobs {
		for _, r := range j.Replicas {
			ids = append(ids, r.ReplicaID)
		}
	}
	return ids
}

// Leads in /status.json is the role of the server that was asked, though the
// leader answers for all; Leader names the leader.
func TestStatusSaysWhoLeads(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		l, others := three(t)
		for _, s := range append(others, l) {
			code, body := fetch(t, http.MethodGet, s.URL("/status.json"), nil)
			var st lighthouse.Status
			if err := json.Unmarshal([]byte(body), &st); code != http.StatusOK || err != nil {
				t.Fatalf("status of %s: %d, %v", s.Addr, code, err)
			}
			if st.Leads != (s == l) || st.Leader != l.Addr || st.Addr != l.Addr || st.Term == 0 {
				t.Errorf("%s says leads %v, leader %q, addr %s, term %d; %s leads", s.Addr, st.Leads, st.Leader, st.Addr, st.Term, l.Addr)
			}
		}
	})
}
