package replica

import (
	"cmp"
	"context"
	"slices"

	"github.com/skerry-ft/skerry/quorum"
)

// maxQueued bounds what waits for one slow rank. Notices about one quorum are
// few; a rank that is this far behind has its deadlines.
const maxQueued = 256

// subscriber is one rank's queue of notices. Guarded by server.mu.
type subscriber struct {
	rank  int
	queue []Notice
}

// push queues n for all ranks but one (-1: none).
func (s *server) push(n Notice, except int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sub := range s.mu.subscribers {
		if sub.rank != except && len(sub.queue) < maxQueued {
			sub.queue = append(sub.queue, n)
		}
	}
	s.mu.Broadcast()
}

// noticed passes a notice of the lighthouse on to all ranks.
func (s *server) noticed(n quorum.Notice) { s.push(Notice{Notice: n}, -1) }

// subscribe calls f for each notice to rank, one at a time, until ctx ends, f
// fails, or a rank of the replica is gone (final.ErrRankLost).
func (s *server) subscribe(ctx context.Context, rank int, f func(Notice) error) error {
	sub := &subscriber{
		rank: rank, queue: []Notice{{Hello: &RankHello{ReplicaID: string(s.replica), GroupWorldSize: s.size}}},
	}
	s.mu.Lock()
	s.mu.subscribers = append(s.mu.subscribers, sub)
	s.mu.Unlock()
	defer s.unsubscribe(sub)
	for {
		var queue []Notice
		var ended error
		err := s.mu.Await(ctx, 0, func() bool {
			queue, sub.queue = sub.queue, nil
			if s.mu.lost {
				ended = s.mu.final
			}
			return len(queue) > 0 || ended != nil
		})
		for _, n := range queue {
			if err := f(n); err != nil {
				return err
			}
		}
		if len(queue) == 0 {
			return cmp.Or(err, ended)
		}
	}
}

func (s *server) unsubscribe(gone *subscriber) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.subscribers = slices.DeleteFunc(s.mu.subscribers, func(sub *subscriber) bool { return sub == gone })
}

// direct is group rank 0's link to the server in its own process.
type direct struct{ *server }

func (d direct) Vote(ctx context.Context, v quorum.RankVote) (quorum.TallyResult, error) {
	result, err := d.vote(ctx, v)
	if err != nil && ctx.Err() != nil {
		v.Last = true // decided now, or before
		return d.vote(context.WithoutCancel(ctx), v)
	}
	return result, err
}

func (d direct) Away(_ context.Context, away func() bool) { d.setAway(0, away()) }

func (d direct) Notices(ctx context.Context, f func(Notice)) error {
	return d.subscribe(ctx, 0, func(n Notice) error {
		f(n)
		return nil
	})
}

func (d direct) Sources(ctx context.Context) (quorum.Sources, error) {
	return d.session.Sources(ctx)
}
