package lighthouse_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/lighthouse"
)

// A follower whose leader cannot take a call about the servers in time says so, in
// words by which an operator's program asks another server.
func TestFollowerSaysThatTheLeaderCannotYet(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		c, cables := cabledCluster(t, func(cfg *lighthouse.Config) {
			cfg.Rules.MinReplicas = 1
			cfg.Raft.Election = 5 * time.Second // as long a handover in vain takes, and refuses commands
		})
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		l, away, asked := c.Servers[c.Leader()], c.Followers()[0], c.Followers()[1]
		cables[away].set(true)
		asking, client := torchft(t, l)
		get(t, "a", ask(asking, client, "a", 0)) // so that it lags behind, and raft waits for it
		handed := make(chan struct{})
		go func() {
			defer close(handed)
			_, _ = skerrypb.NewClusterClient(dial(t, l.Addr)).TransferLeader(ctx, &skerrypb.TransferLeaderRequest{To: c.Servers[away].Addr})
		}()
		<-time.After(200 * time.Millisecond)
		_, err := skerrypb.NewClusterClient(dial(t, c.Servers[asked].Addr)).Remove(ctx, &skerrypb.RemoveRequest{RaftId: c.Servers[away].Addr, Force: true})
		if !errors.Is(wire.FromStatus(err), wire.ErrNoLeader) {
			t.Errorf("remove during a handover in vain: %v, want %v", err, wire.ErrNoLeader)
		}
		<-handed
	})
}
