package lighthouse_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/lighthouse/internal/network"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
	"github.com/skerry-ft/skerry/quorum"
)

// raftCable is one server's raft connections, which can be cut.
type raftCable struct {
	mu    sync.Mutex
	cut   bool
	conns []net.Conn
}

func (c *raftCable) take(conn net.Conn, err error) (net.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err != nil:
		return nil, err
	case c.cut:
		return nil, errors.Join(errors.New("the cable is cut"), conn.Close())
	}
	c.conns = append(c.conns, conn)
	return conn, nil
}

func (c *raftCable) set(cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = cut
	for _, conn := range c.conns {
		_ = conn.Close() // cut
	}
	c.conns = nil
}

// cabled is a server's network whose raft connections go by a cable.
type cabled struct {
	network.Network
	cable *raftCable
}

// raftPort is server i's for raft, in a cluster of cabledCluster.
func raftPort(i int) string { return fmt.Sprintf("127.0.0.1:2951%d", i) }

func forRaft(address string) bool { return strings.HasPrefix(address, "127.0.0.1:2951") }

func (n cabled) Dial(ctx context.Context, address string) (net.Conn, error) {
	conn, err := n.Network.Dial(ctx, address)
	if forRaft(address) {
		return n.cable.take(conn, err)
	}
	return conn, err
}

func (n cabled) Listen(address string) (net.Listener, error) {
	l, err := n.Network.Listen(address)
	if forRaft(address) && err == nil {
		return cutListener{l, n.cable}, nil
	}
	return l, err
}

// cabledCluster starts three servers of a cable each.
func cabledCluster(t *virtual, change func(cfg *lighthouse.Config)) (*lighthousetest.Cluster, []raftCable) {
	t.Helper()
	cables := make([]raftCable, 3)
	c := startCluster(t, 3, lighthousetest.Options{Timing: "slow", Change: func(i int, cfg *lighthouse.Config) {
		cfg.Network, cfg.Cluster.RaftAddress = cabled{cfg.Network, &cables[i]}, raftPort(i)
		change(cfg)
	}})
	settled(t, c, 0, []int{0, 1, 2}, nil)
	return c, cables
}

// cutListener accepts through a cable.
type cutListener struct {
	net.Listener
	cable *raftCable
}

func (l cutListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if conn, err := l.cable.take(conn, nil); err == nil {
			return conn, nil
		}
	}
}

// A leader that is cut off from the others, but not from the replicas, forms no
// quorum and repeats none; the others' leader does, with a higher id. When the
// cable is mended it follows, and holds what they hold.
func TestCutOffLeaderAnswersNobody(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		c, cables := cabledCluster(t, func(cfg *lighthouse.Config) { cfg.Rules.MinReplicas = 2 })
		old, told, first := formIn(t, c, "a", "b")
		cables[old].set(true)
		for _, r := range told { // they reach it, and ask for another quorum
			r.join(quorum.JoinFall, func(j *quorum.Join) {
				j.Fact = quorum.Fact{Kind: quorum.Refused, Step: 1, QuorumID: first.ID}
			})
		}
		c.Eventually("another server leads", func() error {
			for i, s := range c.Servers {
				if st, err := s.Lighthouse.Status(t.Context()); i != old && err == nil && st.Leads {
					return nil
				}
			}
			return errors.New("none does")
		})
		for _, r := range told {
			r.end()
			for len(r.down) > 0 {
				if down := <-r.down; down.GetAnswer() != nil && down.GetAnswer().GetNumber() > 1 {
					t.Errorf("%s was answered by a leader without followers: %v", r.id, down)
				}
			}
		}
		_, _, second := formIn(t, c, "c", "d")
		if second.ID <= first.ID || second.Cluster != first.Cluster {
			t.Errorf("quorum %d of %s after %d of %s", second.ID, second.Cluster, first.ID, first.Cluster)
		}
		cables[old].set(false)
		c.Eventually("the old leader follows", func() error {
			all, err := members(t, c.Servers[old].Addr)
			if err != nil {
				return err
			}
			for _, m := range all.GetMembers() {
				if m.GetRpcAddress() == c.Servers[old].Addr && (m.GetLeader() || m.GetLastIndex() < all.GetLastIndex()) {
					return fmt.Errorf("%v of %d", m, all.GetLastIndex())
				}
			}
			return nil
		})
		if got := c.Servers[old].Lighthouse.LastQuorum("default"); got != second.ID {
			t.Errorf("the old leader holds quorum %d, want %d", got, second.ID)
		}
	})
}
