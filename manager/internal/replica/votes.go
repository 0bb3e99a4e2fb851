package replica

import (
	"context"
	"fmt"

	"github.com/skerry-ft/skerry/internal/failpoint"
	"github.com/skerry-ft/skerry/quorum"
)

// vote implements link: it counts v, and waits for the decision on its attempt, or for
// ctx to end: then the vote is counted, and the attempt open. A rank whose group broke
// also makes its siblings abort, so that they vote soon.
func (s *server) vote(ctx context.Context, v quorum.RankVote) (quorum.TallyResult, error) {
	if v.Broken {
		s.tellSiblings(v.GroupRank, v.QuorumID, "its group broke")
	}
	if err := s.count(v); err != nil {
		return quorum.TallyResult{}, err
	}
	failpoint.At(ctx, failpoint.VoteDuring)
	s.voteFirst()
	var result quorum.TallyResult
	var final error
	err := s.mu.Await(ctx, 0, func() (decided bool) {
		if result, decided = s.mu.polls.ResultFor(v); !decided { // a decision stands, also if the replica ended since
			final = s.mu.final
		}
		return decided || final != nil
	})
	if err != nil {
		return quorum.TallyResult{}, fmt.Errorf("wait for the other ranks' votes: %w", err)
	}
	return result, final
}

// count counts a vote, unless the replica has ended and its attempt is not decided.
func (s *server) count(v quorum.RankVote) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.mu.polls.Result(v.Attempt); !ok && s.mu.final != nil {
		return s.mu.final
	}
	err := s.mu.polls.Vote(v)
	if s.size > 1 { // a rank alone decides with its vote, and no other call waits
		s.mu.Broadcast()
	}
	return err
}
