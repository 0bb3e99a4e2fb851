package lighthouse_test

import (
	"bytes"
	"fmt"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/guard/guardtest"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
)

// A running cluster is given TLS, a token and a gossip key by three rolling
// restarts, one for each step. After each restart all servers hear and follow one
// another, whichever step the others are at; after the last, strangers are refused.
func TestAdoption(t *testing.T) {
	t.Parallel()
	long(t)
	inBubble(t, func(t *virtual) {
		creds := guardtest.New(t)
		key := bytes.Repeat([]byte{7}, 32)
		c := startCluster(t, 3, lighthousetest.Options{Timing: "slow"})
		settled(t, c, 0, []int{0, 1, 2}, nil)
		_, _, first := formIn(t, c, "a", "b")
		operator := guardtest.Open(t, creds.Options(t, guard.Operator, "operator"))
		connect := func(addr string) *grpc.ClientConn { return dial(t, addr) }
		for _, step := range []guard.Adoption{guard.AdoptListen, guard.AdoptSpeak, guard.AdoptNone} {
			if step == guard.AdoptNone {
				connect = func(addr string) *grpc.ClientConn { return guarded(t, operator, addr) }
			}
			for i := range 3 {
				c.Configure(i, func(cfg *lighthouse.Config) {
					cfg.Guard = creds.Options(t, guard.Lighthouse, "server")
					cfg.Guard.Adopt = step
					cfg.Cluster.GossipKeys = func() [][]byte { return [][]byte{key} }
				})
				c.Restart(i)
				c.Eventually(fmt.Sprintf("all are together when server %d is at step %q", i, step), func() error {
					return together(t, connect(c.Servers[c.Leader()].Addr))
				})
				if got := c.Servers[i].Lighthouse.LastQuorum("default"); got != first.ID {
					c.Eventually("it holds the last quorum", func() error {
						if got := c.Servers[i].Lighthouse.LastQuorum("default"); got != first.ID {
							return fmt.Errorf("%d, want %d", got, first.ID)
						}
						return nil
					})
				}
			}
		}
		for _, s := range c.Servers {
			if _, err := skerrypb.NewClusterClient(dial(t, s.Addr)).Members(t.Context(), &skerrypb.MembersRequest{}); status.Code(err) != codes.Unavailable {
				t.Errorf("a stranger without TLS: %v, want Unavailable", err)
			}
		}
	})
}

// together returns nil if all servers of the cluster are alive and level with the
// leader, as the leader tells it.
func together(t testing.TB, leader *grpc.ClientConn) error {
	t.Helper()
	all, err := skerrypb.NewClusterClient(leader).Members(t.Context(), &skerrypb.MembersRequest{})
	if err != nil {
		return err
	}
	n := 0
	for _, m := range all.GetMembers() {
		if !m.GetAlive() || m.GetLastIndex() < all.GetLastIndex() {
			return fmt.Errorf("%v, log to %d", m, all.GetLastIndex())
		}
		n++
	}
	if n != 3 {
		return fmt.Errorf("%d servers", n)
	}
	return nil
}

// A gossip key is changed in three moves of a file, while the servers run and
// hear one another all the time.
func TestGossipKeysChange(t *testing.T) {
	t.Parallel()
	long(t)
	inBubble(t, func(t *virtual) {
		older, newer := bytes.Repeat([]byte{7}, 32), bytes.Repeat([]byte{8}, 32)
		var keys [3]keyFile
		c := startCluster(t, 3, lighthousetest.Options{Timing: "slow", Change: func(i int, cfg *lighthouse.Config) {
			keys[i].set(older)
			cfg.Cluster.GossipKeys = keys[i].get
		}})
		settled(t, c, 0, []int{0, 1, 2}, nil)
		for _, now := range [][][]byte{{older, newer}, {newer, older}, {newer}} {
			for i := range keys {
				keys[i].set(now...)
				asked := keys[i].asked.Load()
				c.Eventually("the server takes the keys", func() error {
					if n := keys[i].asked.Load(); n < asked+2 {
						return fmt.Errorf("it has asked %d times", n-asked)
					}
					return nil
				})
				if err := together(t, dial(t, c.Servers[c.Leader()].Addr)); err != nil {
					c.Eventually("all are together", func() error { return together(t, dial(t, c.Servers[c.Leader()].Addr)) })
				}
			}
		}
		c.Restart(c.Followers()[0]) // it has the new key alone
		c.Eventually("all are together after a restart", func() error { return together(t, dial(t, c.Servers[c.Leader()].Addr)) })
	})
}
