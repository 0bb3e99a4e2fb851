package lighthouse_test

import (
	"net"
	"testing"

	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/internal/wire/torchftpb"
	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
)

// A handover that does not come about refuses commands for a moment, and the
// leader leads on: so do its jobs.
func TestJobOutlivesAHandoverInVain(t *testing.T) {
	t.Parallel()
	cables := make([]raftCable, 3)
	c := lighthousetest.StartCluster(t, 3, lighthousetest.Options{Timing: "slow", Change: func(i int, cfg *lighthouse.Config) {
		cfg.Rules.MinReplicas = 1
		cfg.Cluster.RaftDial = cables[i].dial
		cfg.Cluster.RaftListen = func(l net.Listener) net.Listener { return cutListener{l, &cables[i]} }
	}})
	settled(t, c, 0, []int{0, 1, 2}, nil)
	l, away := c.Servers[c.Leader()], c.Followers()[0]
	ctx, client := torchft(t, l)
	first := get(t, "a", ask(ctx, client, "a", 0))
	cables[away].set(true) // gossip sees it still, and raft does not reach it
	done := make(chan error, 1)
	go func() {
		_, err := skerrypb.NewClusterClient(dial(t, l.Addr)).TransferLeader(ctx, &skerrypb.TransferLeaderRequest{To: c.Servers[away].Addr})
		done <- err
	}()
	m := &torchftpb.QuorumMember{ReplicaId: "a", Address: "http://a", StoreAddress: "a:1", WorldSize: 1, CommitFailures: 1}
	next := get(t, "a, while a server that is cut off is to lead", askWith(ctx, client, m))
	if err := <-done; err == nil {
		t.Error("a server that is cut off took over")
	}
	if next.GetQuorumId() <= first.GetQuorumId() {
		t.Errorf("quorum %d after %d", next.GetQuorumId(), first.GetQuorumId())
	}
}
