package crowd_test

import (
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/skerry-ft/skerry/cmd/skerry/internal/bench/crowd"
	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestCrowd: all replicas are in one quorum, twice, and ask whether it stands, over fewer connections than there are of them,
// and beat; a lighthouse that is gone is told.
func TestCrowd(t *testing.T) {
	t.Parallel()
	const n = 20
	l := lighthousetest.Start(t, func(c *lighthouse.Config) { c.Rules.MinReplicas = n })
	var conns []*grpc.ClientConn
	for range 3 {
		conn, err := grpc.NewClient("passthrough:///"+l.Addr, append(wire.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conns = append(conns, conn)
	}
	c, err := crowd.Open(t.Context(), conns, n)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 2 {
		if took, err := c.JoinAll(t.Context()); err != nil || took <= 0 {
			t.Fatalf("join: %v after %v", err, took)
		}
	}
	if took, err := c.AskAll(t.Context()); err != nil || took <= 0 {
		t.Fatalf("ask: %v after %v", err, took)
	}
	testkit.Eventually(t, "beats are sent", func() bool { return c.Beats() > n })
	if c.Quiet() <= 0 || c.Failed() != nil {
		t.Errorf("timeout %v, failed %v", c.Quiet(), c.Failed())
	}
	l.Stop()
	testkit.Eventually(t, "a session has ended", func() bool { return c.Failed() != nil })
}
