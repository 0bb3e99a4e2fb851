package lighthouse_test

import (
	"bufio"
	"crypto/tls"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/guard/guardtest"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
)

// TestReplicasSpeakNoRaft: a replica's certificate, without the operators' token,
// makes no server: who could speak raft could write the ledger.
func TestReplicasSpeakNoRaft(t *testing.T) {
	t.Parallel()
	c := guardtest.New(t)
	servers := lighthousetest.StartCluster(t, 3, lighthousetest.Options{Timing: "slow", Change: func(_ int, cfg *lighthouse.Config) {
		cfg.Guard = c.Options(t, "server")
	}})
	follower := servers.Servers[servers.Followers()[0]]
	options := c.Options(t, "member")
	options.TokenFile = ""
	replica := guardtest.Open(t, options)
	members, err := skerrypb.NewClusterClient(guarded(t, replica, follower.Addr)).Members(t.Context(), &skerrypb.MembersRequest{})
	if err != nil || len(members.GetMembers()) != 3 {
		t.Fatalf("members: %v, %v", members, err)
	}
	for _, m := range members.GetMembers() {
		conn, err := tls.Dial("tcp", m.GetRaftAddress(), replica.TLS.Client(m.GetRaftAddress()))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(patience))
		greeting := "skerry-raft/1\n" + members.GetCluster() + "\n" + m.GetRaftId() + "\n\x00" + strings.Repeat("x", 64)
		_, _ = conn.Write([]byte(greeting)) // a refusal shows below
		said := bufio.NewReader(io.LimitReader(conn, 1<<10))
		if magic, err := said.Peek(8); err != nil || string(magic) != "SKERRYG\x01" {
			t.Errorf("raft told a replica %q, %v; want a challenge", magic, err)
		}
		if all, _ := io.ReadAll(said); len(all) > 24 {
			t.Errorf("raft told a replica %d bytes, want the challenge alone", len(all))
		}
	}
}
