package manager

import (
	"strings"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/netaddr"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/manager/internal/replica"
	"github.com/skerry-ft/skerry/quorum"
	"github.com/skerry-ft/skerry/store"
)

// TestKillNeedsTheToken: and a proof that was made for one replica is worth
// nothing at another.
func TestKillNeedsTheToken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		killed := make(chan string, 2)
		token := guard.RandomSecret()
		w.tune = func(c *Config) {
			c.OnKill = func(reason string) { killed <- reason }
			c.Guard = Guard{Token: token}
		}
		a, b := w.trainer("a").start(1), w.trainer("b").start(1)
		kill := func(g *guard.Guard, of, at *trainer) error {
			t.Helper()
			// Proofs are made for one address, and sent to another.
			conn, err := dialAs(g, of.host, of.m.replica.Address(), at.m.replica.Address())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_, err = skerrypb.NewManagerClient(conn).Kill(limited(t), &skerrypb.KillRequest{Message: "test"})
			return err
		}
		holder := &guard.Guard{Token: guard.FixedToken(token)}
		for name, err := range map[string]error{
			"no token":                       kill(nil, a, a),
			"another token":                  kill(&guard.Guard{Token: guard.FixedToken(guard.RandomSecret())}, a, a),
			"a proof that was for another's": kill(holder, b, a),
		} {
			if status.Code(err) != codes.Unauthenticated {
				t.Errorf("%s: %v, want Unauthenticated", name, err)
			}
		}
		if len(killed) != 0 {
			t.Fatal("somebody was killed")
		}
		if err := kill(holder, a, a); err != nil || len(killed) != 1 {
			t.Errorf("with the token: %v, %d killed", err, len(killed))
		}
	})
}

// TestKillNeedsAnOrder: replicas that hold no more than a join token cannot kill one
// another with it; an operator's signature for one of them is worth nothing at another.
func TestKillNeedsAnOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		killed := make(chan string, 2)
		operators := guard.FixedToken(guard.RandomSecret())
		joins, err := operators.JoinTokens("default")
		if err != nil {
			t.Fatal(err)
		}
		w.tune = func(c *Config) {
			c.OnKill = func(reason string) { killed <- reason }
			c.Guard = Guard{Token: joins[0]}
		}
		a, b := w.trainer("a").start(1), w.trainer("b").start(1)
		req := &skerrypb.KillRequest{Message: "test"}
		kill := func(as *guard.Guard, order *guard.Token, of *trainer) error {
			t.Helper()
			conn, err := replica.Dial(as, a.m.cfg.Network, a.m.sibling(), a.m.replica.Address())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			ctx := limited(t)
			if order != nil {
				ctx = (&guard.Guard{Token: order}).Ordered(ctx, guard.Audience(skerrypb.Manager_Kill_FullMethodName, netaddr.HostPort(of.m.replica.Address())), req)
			}
			_, err = skerrypb.NewManagerClient(conn).Kill(ctx, req)
			return err
		}
		fellow, operator := b.m.guard, &guard.Guard{Token: operators}
		for name, err := range map[string]error{
			"a fellow":                     kill(fellow, nil, a),
			"an operator without an order": kill(operator, nil, a),
			"an order for another replica": kill(operator, operators, b),
			"another operator's order":     kill(fellow, guard.FixedToken(guard.RandomSecret()), a),
		} {
			if status.Code(err) != codes.Unauthenticated {
				t.Errorf("%s: %v, want Unauthenticated", name, err)
			}
		}
		if len(killed) != 0 {
			t.Fatal("somebody was killed")
		}
		if err := kill(operator, operators, a); err != nil || len(killed) != 1 {
			t.Errorf("an operator's order: %v, %d killed", err, len(killed))
		}
	})
}

// TestStoreIsTheQuorums: the store takes who proves the token of a quorum, under
// that quorum's prefix, and not the members of an older one.
func TestStoreIsTheQuorums(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.trainer("a").start(1 << 40)
		w.reaches(3, a)
		a.m.mu.Lock()
		q := a.m.mu.rank.Quorum()
		a.m.mu.Unlock()
		open := func(token []byte, prefix string) (store.Store, error) {
			return store.Open(limited(t), a.m.StoreAddress()+"/"+prefix, store.ClientConfig{Token: token, Dial: storeDial(a.host)})
		}
		if s, err := open(nil, quorum.StorePrefix(q, 0)); err == nil {
			s.Close() //nolint:errcheck // it should not be there
			t.Error("the store lets in who proves nothing")
		}
		s, err := open(q.Token[:], quorum.StorePrefix(q, 0))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close() //nolint:errcheck // nothing is lost with it
		if err := s.Set(limited(t), "key", nil); err != nil {
			t.Errorf("a member may not write: %v", err)
		}
		elsewhere, err := open(q.Token[:], "skerry/other")
		if err != nil {
			t.Fatal(err)
		}
		defer elsewhere.Close() //nolint:errcheck // nothing is lost with it
		if err := elsewhere.Set(limited(t), "key", nil); err == nil {
			t.Error("a member writes outside its quorum's prefix")
		}
		b := w.trainer("b").start(1 << 40) // a new quorum
		w.reaches(a.m.Step()+3, a, b)
		eventually(t, "the old quorum's members are out", func() bool { return s.Set(limited(t), "key", nil) != nil })
	})
}

// TestGuardIsChecked: what is wrong with it is told by New.
func TestGuardIsChecked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		cfg := Config{ReplicaID: "a", Lighthouse: []string{"127.0.0.1:1"}, Backend: w.trainer("a").m.cfg.Backend}
		cfg.Guard.TLSCert = "/nowhere"
		if _, err := New(cfg); err == nil {
			t.Error("a certificate without key and CA is taken")
		}
		cfg.Guard = Guard{TokenFile: "/nowhere/token"}
		if _, err := New(cfg); err == nil {
			t.Error("a token file that is not there is taken")
		}
		all, err := guard.FixedToken(guard.RandomSecret()).JoinTokens("vision")
		if err != nil {
			t.Fatal(err)
		}
		cfg.Guard = Guard{Token: all[0]}
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), `the join token is of job "vision"`) {
			t.Errorf("the join token of another job: %v", err)
		}
	})
}

// TestManagerBombs: a report of 31 MiB is refused by its headers, or by its length
// before any of it is asked for; and the replica trains on.
func TestManagerBombs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		token := guard.RandomSecret()
		w.tune = func(c *Config) { c.Guard = Guard{Token: token} }
		a := w.trainer("a").start(1 << 40)
		w.reaches(3, a)
		report := &skerrypb.RankQuorumRequest{CheckpointMetadata: strings.Repeat("x", 31<<20)}
		for name, c := range map[string]struct {
			with *guard.Guard
			want codes.Code
		}{
			"no proof":      {nil, codes.Unauthenticated},
			"a false proof": {&guard.Guard{Token: guard.FixedToken(guard.RandomSecret())}, codes.ResourceExhausted},
		} {
			conn, err := replica.Dial(c.with, a.m.cfg.Network, guard.Party{}, a.m.replica.Address())
			if err != nil {
				t.Fatal(err)
			}
			_, err = skerrypb.NewManagerClient(conn).Quorum(limited(t), report, grpc.MaxCallSendMsgSize(64<<20))
			if status.Code(err) != c.want {
				t.Errorf("%s: %v, want %v", name, err, c.want)
			}
			_ = conn.Close() // it has had its answer
		}
		w.reaches(a.m.Step()+3, a)
	})
}
