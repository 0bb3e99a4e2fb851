package lighthouse_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
	"github.com/skerry-ft/skerry/quorum"
)

// members asks a server who is in the cluster.
func members(t testing.TB, addr string) (*skerrypb.MembersResponse, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	conn := connect(t, addr)
	defer func() { _ = conn.Close() }() // its call has ended
	return skerrypb.NewClusterClient(conn).Members(ctx, &skerrypb.MembersRequest{})
}

// voters returns the addresses of the voters, and of the others that are alive
// in raft, as a server tells it.
func voters(t testing.TB, addr string) (voting, others []string, next string) {
	t.Helper()
	all, err := members(t, addr)
	if err != nil {
		return nil, nil, err.Error()
	}
	for _, m := range all.GetMembers() {
		switch {
		case m.GetVoter():
			voting = append(voting, m.GetRpcAddress())
		case m.GetInRaft() && m.GetAlive():
			others = append(others, m.GetRpcAddress())
		}
	}
	return voting, others, all.GetNext()
}

// settled waits until exactly these servers vote and those do not.
func settled(t testing.TB, c *lighthousetest.Cluster, ask int, voting, others []int) {
	t.Helper()
	addresses := func(of []int) string {
		var all []string
		for _, i := range of {
			all = append(all, c.Servers[i].Addr)
		}
		return fmt.Sprint(sortedStrings(all))
	}
	c.Eventually(fmt.Sprintf("servers %v vote and %v do not", voting, others), func() error {
		v, o, next := voters(t, c.Servers[ask].Addr)
		if fmt.Sprint(sortedStrings(v)) != addresses(voting) || fmt.Sprint(sortedStrings(o)) != addresses(others) {
			return fmt.Errorf("voters %v, others %v, next %q", v, o, next)
		}
		return nil
	})
}

// A spare enters without a vote, takes the place of a voter that is gone, and
// the voter, when it is back with its data, is the spare. A stop is no leave:
// before the time is up, nothing changes.
func TestSpareTakesTheGoneVotersPlace(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		c := startCluster(t, 3, lighthousetest.Options{Spares: 1,
			Change: func(_ int, c *lighthouse.Config) { c.Cluster.ReplaceAfter = 1500 * time.Millisecond }})
		settled(t, c, 3, []int{0, 1, 2}, []int{3})
		gone := c.Followers()[0]
		if gone == 3 {
			gone = c.Followers()[1]
		}
		var rest []int
		for i := range 3 {
			if i != gone {
				rest = append(rest, i)
			}
		}
		c.Stop(gone)
		settled(t, c, 3, append(rest, 3), nil)
		c.Restart(gone)
		settled(t, c, gone, append(rest, 3), []int{gone})
	})
}

// Two of five voters die. Two spares take their places, one after the other, and
// quorums are formed all the while.
func TestTwoDeadOfFiveAreReplaced(t *testing.T) {
	t.Parallel()
	long(t)
	inBubble(t, func(t *virtual) {
		c := startCluster(t, 5, lighthousetest.Options{Timing: "slow", Spares: 2,
			Change: func(_ int, c *lighthouse.Config) { c.Cluster.ReplaceAfter = 2 * time.Second }})
		settled(t, c, 5, []int{0, 1, 2, 3, 4}, []int{5, 6})
		form := func(ids ...quorum.ReplicaID) quorum.Quorum {
			_, all, q := formIn(t, c, ids...)
			for _, r := range all {
				r.kill()
			}
			return q
		}
		first := form("a", "b")
		var dead, rest []int
		for _, i := range c.Followers() {
			if i < 5 && len(dead) < 2 {
				dead = append(dead, i)
			}
		}
		for i := range 7 {
			if !slices.Contains(dead, i) {
				rest = append(rest, i)
			}
		}
		for _, i := range dead {
			c.Stop(i)
		}
		second := form("c", "d")
		settled(t, c, 5, rest, nil)
		third := form("e", "f")
		if second.ID <= first.ID || third.ID <= second.ID || third.Cluster != first.Cluster {
			t.Errorf("quorums %d, %d, %d of %s and %s", first.ID, second.ID, third.ID, first.Cluster, third.Cluster)
		}
		c.Restart(dead[0]) // with its data: it is a spare now
		settled(t, c, 5, rest, dead[:1])
	})
}

// A server that comes back with nothing is another server: it takes the place
// of the one that it was, and its empty log votes for nobody under the old id.
func TestEmptyServerIsANewServer(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		c := startCluster(t, 3, lighthousetest.Options{})
		settled(t, c, 0, []int{0, 1, 2}, nil)
		lost := c.Followers()[0]
		before := raftIDOf(t, c, lost)
		c.Stop(lost)
		empty := t.TempDir()
		c.Configure(lost, func(cfg *lighthouse.Config) {
			cfg.DataDir = empty
			cfg.Cluster.Join = c.Addresses()
		})
		c.Restart(lost)
		settled(t, c, lost, []int{0, 1, 2}, nil)
		c.Eventually("the old id is gone", func() error {
			all, err := members(t, c.Servers[lost].Addr)
			if err != nil {
				return err
			}
			for _, m := range all.GetMembers() {
				if m.GetRaftId() == before {
					return fmt.Errorf("%v", m)
				}
			}
			return nil
		})
	})
}

func raftIDOf(t testing.TB, c *lighthousetest.Cluster, i int) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(c.DataDir(i), "raft-id"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(data))
}

// leave takes a server out for good, whoever is asked and whoever leads: the
// server ends, and its data never come back. A voter does not go while another
// is away.
func TestLeaveIsForGood(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		c := startCluster(t, 3, lighthousetest.Options{})
		settled(t, c, 0, []int{0, 1, 2}, nil)
		leader := c.Leader()
		ask := (leader + 1) % 3
		remove := func(name string) error {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			_, err := skerrypb.NewClusterClient(dial(t, c.Servers[ask].Addr)).Remove(ctx, &skerrypb.RemoveRequest{RaftId: name})
			return err
		}
		if err := remove("nobody"); status.Code(err) != codes.NotFound {
			t.Errorf("remove nobody: %v, want NotFound", err)
		}
		tried := false
		c.Eventually("remove the leader", func() error { // between two leaders nobody can
			err := remove(c.Servers[leader].Addr)
			switch code := status.Code(err); {
			case err == nil, tried && code == codes.NotFound:
				return nil
			case code != codes.Unavailable:
				t.Fatalf("remove the leader: %v", err)
			}
			tried = true
			return err
		})
		select {
		case <-c.Servers[leader].Done():
		case <-time.After(patience):
			t.Fatal("the server that left still runs")
		}
		if err := c.Servers[leader].Stop(); err == nil || !strings.Contains(err.Error(), "taken out of the cluster") {
			t.Errorf("the server that left ended with %v", err)
		}
		rest := []int{ask, (leader + 2) % 3}
		settled(t, c, ask, rest, nil)
		again := c.TryRestart(leader)
		select {
		case <-again.Done():
		case <-time.After(patience):
			t.Fatal("its data are back in the cluster")
		}
		if err := again.Stop(); err == nil || !strings.Contains(err.Error(), "empty data dir") {
			t.Errorf("the server that left, started again: %v", err)
		}
		c.Stop(rest[1])
		c.Eventually("a voter does not go while another is away", func() error {
			if err := remove(c.Servers[ask].Addr); status.Code(err) != codes.FailedPrecondition && status.Code(err) != codes.Unavailable {
				return fmt.Errorf("%v", err)
			}
			return nil
		})
	})
}

// The leadership goes where it is sent, in less than an election takes.
func TestTransferLeader(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		c := startCluster(t, 3, lighthousetest.Options{})
		settled(t, c, 0, []int{0, 1, 2}, nil)
		to := c.Followers()[1]
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		client := skerrypb.NewClusterClient(dial(t, c.Servers[c.Followers()[0]].Addr))
		c.Eventually("the named server may lead", func() error { // its health is known later
			_, err := client.TransferLeader(ctx, &skerrypb.TransferLeaderRequest{To: c.Servers[to].Addr})
			if err != nil && status.Code(err) != codes.FailedPrecondition {
				t.Fatal(err)
			}
			return err
		})
		c.Eventually("the named server leads", func() error {
			if got := c.Leader(); got != to {
				return fmt.Errorf("server %d leads, want %d", got, to)
			}
			return nil
		})
	})
}

// Every server is stopped and started again, one after the other, the leader
// among them. While at most one is down there is always a leader, or soon again
// one, and the voters stay.
func TestRollingRestartKeepsTheQuorum(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		c := startCluster(t, 3, lighthousetest.Options{Timing: "slow"})
		settled(t, c, 0, []int{0, 1, 2}, nil)
		before, err := members(t, c.Servers[0].Addr)
		if err != nil {
			t.Fatal(err)
		}
		_, _, first := formIn(t, c, "a", "b")
		for i := range 3 {
			c.Restart(i)
			c.Leader()
			settled(t, c, i, []int{0, 1, 2}, nil)
			c.Eventually("all are alive", func() error {
				all, err := members(t, c.Servers[i].Addr)
				for _, m := range all.GetMembers() {
					if !m.GetAlive() || m.GetLastIndex()+16 < all.GetLastIndex() {
						return fmt.Errorf("%v", m)
					}
				}
				return err
			})
		}
		after, err := members(t, c.Servers[0].Addr)
		if err != nil || after.GetCluster() != before.GetCluster() {
			t.Fatalf("cluster %s, %v; want %s", after.GetCluster(), err, before.GetCluster())
		}
		_, _, next := formIn(t, c, "c", "d")
		if next.ID <= first.ID || next.Cluster != first.Cluster {
			t.Errorf("quorum %d of %s after %d of %s", next.ID, next.Cluster, first.ID, first.Cluster)
		}
	})
}
