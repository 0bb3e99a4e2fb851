package replica

import (
	"context"
	"fmt"
	"time"

	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/manager/internal/final"
)

// rankGrace is for how long the link between a replica's ranks may be down: a
// process that died does not come back, and a connection that was only cut is
// made again within maxRedialPause. Lower, a busy machine ends healthy replicas;
// higher, the other replicas wait for it after each death.
const rankGrace = 500 * time.Millisecond

// lastWordPatience bounds how long the replica's end waits for the lighthouse to
// have heard of it.
const lastWordPatience = 200 * time.Millisecond

// rankLink is what the server knows of its link to one rank above 0.
type rankLink struct {
	open  int       // streams of notices
	broke time.Time // when the last one ended; zero: one is open, or none ever was
}

// linkOpened notes that a rank listens.
func (s *server) linkOpened(rank int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &s.mu.links[rank]
	l.open++
	l.broke = time.Time{}
}

// linkBroke notes that a rank's stream has ended. A rank that stands still, or
// has no time, keeps its stream.
func (s *server) linkBroke(rank int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &s.mu.links[rank]
	if l.open--; l.open == 0 {
		l.broke = time.Now()
	}
	select {
	case s.unlinked <- struct{}{}:
	default:
	}
}

// brokenLink is the rank whose link has been down for longest, and for how long;
// -1: none.
func (s *server) brokenLink() (rank int, down time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rank = -1
	for i, l := range s.mu.links {
		if !l.broke.IsZero() && (rank < 0 || l.broke.Before(s.mu.links[rank].broke)) {
			rank, down = i, time.Since(l.broke)
		}
	}
	return rank, down
}

// guardRanks waits until a rank is gone, or ctx ends. It ends the replica whose
// rank is gone, and says whether it did: the other ranks would wait for that
// one's reports and votes for ever, and the other replicas for theirs.
func (s *server) guardRanks(ctx context.Context) (ended bool) {
	for {
		var due <-chan time.Time
		rank, down := s.brokenLink()
		switch {
		case rank >= 0 && down >= rankGrace:
			return s.rankLost(rank)
		case rank >= 0:
			due = time.After(rankGrace - down)
		}
		select {
		case <-ctx.Done():
			return false
		case <-s.unlinked:
		case <-due:
		}
	}
}

// rankLost ends the replica because a rank is gone, unless it has ended already.
// The lighthouse is told first, for a trainer may exit as soon as it knows.
func (s *server) rankLost(rank int) bool {
	s.mu.Lock()
	over := s.mu.final != nil
	s.mu.Unlock()
	if over {
		return false // drained, evicted or refused: its ranks end as they like
	}
	err := fmt.Errorf("%w: group rank %d: no link for %v: restart all ranks of the replica together",
		final.ErrRankLost, rank, rankGrace)
	s.log.Warn().Err(err).Int(logkey.GroupRank, rank).Msg("group rank lost")
	s.session.Leave(fmt.Sprintf("group rank %d is gone", rank), lastWordPatience)
	s.fail(err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.lost = true
	s.mu.Broadcast()
	return true
}
