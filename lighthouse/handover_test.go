package lighthouse_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/lighthouse/cluster"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
)

// slowPromises is a disk that takes its time to write a term or a vote.
type slowPromises struct {
	cluster.Disk
	delay *atomic.Int64
}

func (d slowPromises) SetUint64(key []byte, v uint64) error {
	<-time.After(time.Duration(d.delay.Load()))
	return d.Disk.SetUint64(key, v)
}

// A handover that was asked of a follower is made once, though the follower hears of
// the next leader before the last one has answered.
func TestForwardedHandoverIsMadeOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		delays := make([]atomic.Int64, 3)
		c := startCluster(t, 3, lighthousetest.Options{Change: func(i int, cfg *lighthouse.Config) {
			cfg.Raft.Election = 5 * time.Second
			cfg.Raft.Disk = func(d cluster.Disk) cluster.Disk { return slowPromises{d, &delays[i]} }
		}})
		settled(t, c, 0, []int{0, 1, 2}, nil)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		old, follower := c.Leader(), c.Followers()[0]
		term := func() (highest uint64) {
			for _, s := range c.Servers {
				st, err := s.Lighthouse.Status(ctx)
				if err != nil {
					t.Fatal(err)
				}
				highest = max(highest, st.Term)
			}
			return highest
		}
		before := term()
		delays[old].Store(int64(200 * time.Millisecond)) // so it answers late that it leads no longer
		_, err := skerrypb.NewClusterClient(dial(t, c.Servers[follower].Addr)).TransferLeader(ctx, &skerrypb.TransferLeaderRequest{})
		if err != nil {
			t.Error(err)
		}
		delays[old].Store(0)
		c.Eventually("the next term has begun", func() error {
			if now := term(); now <= before {
				return fmt.Errorf("term %d after %d", now, before)
			}
			return nil
		})
		c.Leader()
		if now := term(); now != before+1 {
			t.Errorf("term %d after %d: handed over %d times, want once", now, before, now-before)
		}
	})
}
