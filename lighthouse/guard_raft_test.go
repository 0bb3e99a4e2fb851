package lighthouse_test

import (
	"crypto/tls"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/guard/guardtest"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
)

// TestReplicasSpeakNoRaft: a replica's certificate makes no server, though it has the
// token too: who could speak raft could write the ledger.
func TestReplicasSpeakNoRaft(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		c := guardtest.New(t)
		servers := startCluster(t, 3, lighthousetest.Options{Timing: "slow", Change: func(_ int, cfg *lighthouse.Config) {
			cfg.Guard = c.Options(t, guard.Lighthouse, "server")
		}})
		follower := servers.Servers[servers.Followers()[0]]
		replica := guardtest.Open(t, c.Options(t, guard.Replica, "member"))
		members, err := skerrypb.NewClusterClient(guarded(t, replica, follower.Addr)).Members(t.Context(), &skerrypb.MembersRequest{})
		if err != nil || len(members.GetMembers()) != 3 {
			t.Fatalf("members: %v, %v", members, err)
		}
		for _, m := range members.GetMembers() {
			plain, err := t.host.Dial(t.Context(), m.GetRaftAddress())
			if err != nil {
				t.Fatal(err)
			}
			conn := tls.Client(plain, replica.TLS.Client(m.GetRaftAddress(), guard.Party{Role: guard.Lighthouse}))
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(patience))
			if err := conn.HandshakeContext(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := (guard.Dialogue{Token: replica.Token, Purpose: "raft"}).Run(conn); err == nil {
				t.Error("a replica's proof of the token opened raft's port")
			}
			greeting := "skerry-raft/1\n" + members.GetCluster() + "\n" + m.GetRaftId() + "\n\x00" + strings.Repeat("x", 64)
			_, _ = conn.Write([]byte(greeting)) // a refusal shows below
			if all, err := io.ReadAll(io.LimitReader(conn, 1<<10)); len(all) > 0 || err == nil {
				t.Errorf("raft told a replica %q, %v; want a refused handshake", all, err)
			}
		}
	})
}
