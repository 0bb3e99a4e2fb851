package quorum_test

import (
	"testing"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// An answer that a member brings back after the ledger was lost is not told again
// if it has fewer members than there must be: it is a lie, or of older rules.
func TestQ3RestoredAnswer(t *testing.T) {
	t.Parallel()
	for members, want := range map[int]bool{1: false, 2: true} {
		now := time.Unix(1000, 0)
		c := quorum.DefaultConfig()
		c.MinReplicas = 2
		m := quorum.New(now, c, quorum.Ledger{Cluster: "x", Job: "default"})
		all := []quorum.Member{{ReplicaID: "a"}, {ReplicaID: "b"}}
		last := &quorum.LastAnswer{Cluster: "x", QuorumID: 7000, Round: 1, Members: all[:members]}
		if err := m.Open(now, quorum.Hello{ReplicaID: "a", Client: quorum.KindSkerry, Last: last}); err != nil {
			t.Fatal(err)
		}
		got := m.Status(now).Last != nil
		if got != want {
			t.Errorf("an answer of %d members is restored: %v, want %v", members, got, want)
		}
	}
}
