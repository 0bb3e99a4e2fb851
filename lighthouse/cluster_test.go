package lighthouse_test

import (
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
	"github.com/skerry-ft/skerry/quorum"
)

// inProcess starts servers whose rafts talk within the process. In virtual time none of them loses
// its leadership because the machine is busy: a test says when one does.
func inProcess(t *virtual, n int) []*lighthousetest.Server {
	t.Helper()
	var transports []*raft.InmemTransport
	var voters []raft.Server
	for i := range n {
		addr, transport := raft.NewInmemTransport("")
		transports = append(transports, transport)
		voters = append(voters, raft.Server{ID: raft.ServerID(rune('1' + i)), Address: addr})
	}
	for _, a := range transports {
		for _, b := range transports {
			a.Connect(b.LocalAddr(), b)
		}
	}
	var all []*lighthousetest.Server
	for i := range n {
		all = append(all, start(t, func(c *lighthouse.Config) {
			c.Rules.MinReplicas = 2
			c.Raft.Transport, c.Raft.Servers, c.Raft.LocalID = transports[i], voters, voters[i].ID
		}))
	}
	return all
}

// leader waits until one of the servers leads, and returns it and the others.
func leader(t testing.TB, all []*lighthousetest.Server) (l *lighthousetest.Server, others []*lighthousetest.Server) {
	t.Helper()
	testkit.Eventually(t, "one server leads", func() bool {
		others = nil
		for _, s := range all {
			st, err := s.Lighthouse.Status(t.Context())
			if err == nil && st.Leads {
				l = s
			} else {
				others = append(others, s)
			}
		}
		return len(others) == len(all)-1
	})
	return l, others
}

// The next leader has the ledger of the last one: the same cluster, the same
// last quorum, and its members presumed alive, so that nobody is left out.
func TestNextLeaderGoesOnWhereTheLastOneEnded(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		old, others := leader(t, inProcess(t, 3))
		members, first := form(t, old.Addr, "a", "b")
		if err := old.Stop(); err != nil {
			t.Fatal(err)
		}
		for _, r := range members {
			if err := r.end(); err == nil {
				t.Errorf("%s's session outlived the leadership", r.id)
			}
		}
		next, _ := leader(t, others)
		began := time.Now()
		var back []*replica
		for _, id := range []quorum.ReplicaID{"a", "b"} {
			h := hello(id)
			h.Last = &quorum.LastAnswer{Cluster: first.Cluster, QuorumID: first.ID, Round: first.Round, Members: first.Members}
			r, w := open(t, dial(t, next.Addr), h)
			if w.Cluster != first.Cluster {
				t.Errorf("the next leader's cluster is %s, want %s", w.Cluster, first.Cluster)
			}
			back = append(back, r)
		}
		for _, r := range back {
			r.join(quorum.JoinFall, func(j *quorum.Join) {
				j.Fact = quorum.Fact{Kind: quorum.Refused, Step: 1, QuorumID: first.ID}
				j.Last = &quorum.LastAnswer{Cluster: first.Cluster, QuorumID: first.ID, Round: first.Round, Members: first.Members}
			})
		}
		for _, r := range back {
			q := r.answer(1)
			if q.ID <= first.ID || len(q.Members) != 2 {
				t.Errorf("%s: quorum %d with %v after %v, want both under an id above %d",
					r.id, q.ID, memberIDs(q), time.Since(began), first.ID)
			}
		}
	})
}

// Without a majority nobody leads: health says so, and a call ends Unavailable
// rather than with an answer that others may contradict.
func TestMinorityDoesNotLead(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		l, others := leader(t, inProcess(t, 3))
		for _, s := range others {
			if err := s.Stop(); err != nil {
				t.Fatal(err)
			}
		}
		testkit.Eventually(t, "the leader steps down", func() bool {
			code, _ := fetch(t, "GET", l.URL("/healthz"), nil)
			return code == 503
		})
		if code, _ := fetch(t, "GET", l.URL("/status.json"), nil); code != 200 {
			t.Errorf("status without a leadership: %d, want 200", code)
		}
	})
}
