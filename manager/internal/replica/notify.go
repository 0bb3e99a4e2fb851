package replica

import (
	"context"
	"sync"

	"github.com/skerry-ft/skerry/quorum"
)

// maxQueued bounds what waits for one slow rank. Notices about one quorum are
// few; a rank that is this far behind has its deadlines.
const maxQueued = 256

// subscriber is one rank's queue of notices.
type subscriber struct {
	rank int
	wake chan struct{} // capacity 1

	mu struct {
		sync.Mutex

		queue []Notice
	}
}

func (s *subscriber) add(n Notice) {
	s.mu.Lock()
	if len(s.mu.queue) < maxQueued {
		s.mu.queue = append(s.mu.queue, n)
	}
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *subscriber) take() []Notice {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.mu.queue
	s.mu.queue = nil
	return q
}

// push queues n for all ranks but one (-1: none).
func (s *server) push(n Notice, except int) {
	s.mu.Lock()
	subscribers := s.mu.subscribers
	s.mu.Unlock()
	for _, sub := range subscribers {
		if sub.rank != except {
			sub.add(n)
		}
	}
}

// noticed passes a notice of the lighthouse on to all ranks.
func (s *server) noticed(n quorum.Notice) { s.push(Notice{Notice: n}, -1) }

// subscribe calls f for each notice to rank, one at a time, until ctx ends, f
// fails, or a rank of the replica is gone (final.ErrRankLost).
func (s *server) subscribe(ctx context.Context, rank int, f func(Notice) error) error {
	sub := &subscriber{rank: rank, wake: make(chan struct{}, 1)}
	sub.add(Notice{Hello: &RankHello{ReplicaID: string(s.replica), GroupWorldSize: s.size}})
	s.mu.Lock()
	// Copied, so that push may walk the list unlocked.
	s.mu.subscribers = append(append([]*subscriber(nil), s.mu.subscribers...), sub)
	s.mu.Unlock()
	defer s.unsubscribe(sub)
	for {
		for _, n := range sub.take() {
			if err := f(n); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.lost:
			return s.finally()
		case <-sub.wake:
		}
	}
}

// finally is the error that ended the replica.
func (s *server) finally() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.final
}

func (s *server) unsubscribe(gone *subscriber) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var rest []*subscriber
	for _, sub := range s.mu.subscribers {
		if sub != gone {
			rest = append(rest, sub)
		}
	}
	s.mu.subscribers = rest
}

// direct is group rank 0's link to the server in its own process.
type direct struct {
	server *server
}

func (d direct) Report(ctx context.Context, r quorum.RankReport) (Reply, error) {
	return d.server.report(ctx, r)
}

func (d direct) Vote(ctx context.Context, v quorum.RankVote) (quorum.TallyResult, error) {
	result, err := d.server.vote(ctx, v)
	if err != nil && ctx.Err() != nil {
		v.Last = true // decided now, or before
		return d.server.vote(context.WithoutCancel(ctx), v)
	}
	return result, err
}

func (d direct) Away(_ context.Context, away func() bool) { d.server.setAway(0, away()) }

func (d direct) Notices(ctx context.Context, f func(Notice)) error {
	return d.server.subscribe(ctx, 0, func(n Notice) error {
		f(n)
		return nil
	})
}

func (d direct) Sources(ctx context.Context) (quorum.Sources, error) {
	return d.server.session.Sources(ctx)
}

// vote implements link: a rank whose group broke also makes its siblings abort,
// so that they vote soon.
func (s *server) vote(ctx context.Context, v quorum.RankVote) (quorum.TallyResult, error) {
	if v.Broken {
		s.tellSiblings(v.GroupRank, v.QuorumID, "its group broke")
	}
	return s.votes.vote(ctx, v, s.voteFirst)
}
