package lighthouse_test

import (
	"testing"

	"github.com/skerry-ft/skerry/internal/wire/torchftpb"
	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
)

// A handover that does not come about refuses commands for a moment, and the
// leader leads on: so do its jobs.
func TestJobOutlivesAHandoverInVain(t *testing.T) {
	t.Parallel()
	c := lighthousetest.StartCluster(t, 3, lighthousetest.Options{Timing: "slow",
		Change: func(_ int, c *lighthouse.Config) { c.Rules.MinReplicas = 1 }})
	l, away := c.Servers[c.Leader()], c.Followers()[0]
	c.Stop(away)
	ctx, client := torchft(t, l)
	first := get(t, "a", ask(ctx, client, "a", 0)) // the server that is away has not heard of it
	done, err := l.Lighthouse.HandOverTo(c.Servers[away].Addr)
	if err != nil {
		t.Fatal(err)
	}
	m := &torchftpb.QuorumMember{ReplicaId: "a", Address: "http://a", StoreAddress: "a:1", WorldSize: 1, CommitFailures: 1}
	next := get(t, "a, while a server that is away is to lead", askWith(ctx, client, m))
	if err := done(); err == nil {
		t.Error("a server that is away took over")
	}
	if next.GetQuorumId() <= first.GetQuorumId() {
		t.Errorf("quorum %d after %d", next.GetQuorumId(), first.GetQuorumId())
	}
}
