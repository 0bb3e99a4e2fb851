package torchft

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/internal/problems"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/torchftpb"
	"github.com/skerry-ft/skerry/quorum"
)

// maxWaiting bounds the calls of ranks that wait for one round: each rank has
// one, and a few that it gave up without our hearing.
const maxWaiting = 4 * quorum.MaxGroupWorldSize

// groupRank checks a rank that a call names.
func (s *Server) groupRank(rank int64) (int, error) {
	if rank < 0 || rank >= int64(s.cfg.GroupWorldSize) {
		return 0, status.Errorf(codes.InvalidArgument, "group_rank = %d, want 0 to %d", rank, s.cfg.GroupWorldSize-1)
	}
	return int(rank), nil
}

// checkAsk bounds what a rank asks with.
func checkAsk(m *torchftpb.ManagerQuorumRequest) error {
	var l problems.List
	problems.Within(&l, "step", m.GetStep(), 0, wire.MaxNumber)
	problems.Within(&l, "commit_failures", m.GetCommitFailures(), 0, wire.MaxNumber)
	l.Short("checkpoint_metadata", len(m.GetCheckpointMetadata()), wire.MaxMetadataBytes)
	l.Short("reconfigure_handle", len(m.GetReconfigureHandle()), wire.MaxDataBytes)
	if err := l.Err(); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	return nil
}

// Quorum joins when all ranks of the replica have asked, and tells this one
// its part. It blocks until then; the caller's deadline takes its part back.
func (s *Server) Quorum(ctx context.Context, m *torchftpb.ManagerQuorumRequest) (*torchftpb.ManagerQuorumResponse, error) {
	rank, err := s.groupRank(m.GetGroupRank())
	if err == nil {
		err = checkAsk(m)
	}
	if err != nil {
		return nil, err
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	deadline, _ := ctx.Deadline()
	r, err := s.enter(rank, m, deadline)
	if err != nil {
		return nil, err
	}
	defer s.leave(r)
	select {
	case <-r.done:
	case <-ctx.Done():
		return nil, wire.StatusError(fmt.Errorf("wait for %d of %d ranks and the lighthouse: %w", s.absent(r), s.cfg.GroupWorldSize, ended(ctx)))
	}
	if r.err != nil {
		return nil, status.Error(status.Code(r.err), "ask the lighthouse: "+status.Convert(r.err).Message())
	}
	p, err := planFor(r.q, s.cfg.ReplicaID, rank, m.GetInitSync())
	if err != nil {
		return nil, wire.StatusError(err)
	}
	return p, nil
}

// absent is how many ranks have not asked.
func (s *Server) absent(r *round) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cfg.GroupWorldSize - len(r.asked)
}

// CheckpointMetadata is what a rank said of its checkpoint transport when it
// asked last.
func (s *Server) CheckpointMetadata(_ context.Context, m *torchftpb.CheckpointMetadataRequest) (*torchftpb.CheckpointMetadataResponse, error) {
	rank, err := s.groupRank(m.GetRank())
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	text, known := s.mu.metadata[rank]
	if !known {
		return nil, status.Errorf(codes.InvalidArgument, "group rank %d has not asked for a quorum yet", rank)
	}
	return &torchftpb.CheckpointMetadataResponse{CheckpointMetadata: text}, nil
}

// Kill ends the replica, if it is meant to be killed.
func (s *Server) Kill(_ context.Context, m *torchftpb.KillRequest) (*torchftpb.KillResponse, error) {
	if s.cfg.OnKill == nil {
		return nil, status.Error(codes.FailedPrecondition, "this replica does not take kills: Config.OnKill is not set")
	}
	reason := wire.Text(m.GetMsg())
	s.cfg.Log.Warn().Str(logkey.Reason, reason).Msg("killed by an operator")
	s.cfg.OnKill(reason)
	return &torchftpb.KillResponse{}, nil
}

// errOvertaken ends votes on a step that the replica has left.
var errOvertaken = fmt.Errorf("%w: another rank votes on a later step", quorum.ErrStaleVote)

// count is one step's vote.
type count struct {
	attempt, step int64
	decided       chan struct{} // closed when commit or err is there
	commit        bool
	err           error
}

// ShouldCommit takes one rank's vote and returns, when all ranks have voted or
// one said no, whether all said yes.
func (s *Server) ShouldCommit(ctx context.Context, m *torchftpb.ShouldCommitRequest) (*torchftpb.ShouldCommitResponse, error) {
	rank, err := s.groupRank(m.GetGroupRank())
	if err != nil {
		return nil, err
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	c, err := s.vote(rank, m)
	if err != nil {
		return nil, wire.StatusError(err)
	}
	select {
	case <-c.decided:
	case <-ctx.Done():
		s.abandon(c, rank)
		return nil, wire.StatusError(fmt.Errorf("wait for the votes on step %d: %w", m.GetStep(), ended(ctx)))
	}
	if c.err != nil {
		return nil, wire.StatusError(c.err)
	}
	return &torchftpb.ShouldCommitResponse{ShouldCommit: c.commit}, nil
}

// vote gives a vote to the tally, which refuses one for a step gone by.
func (s *Server) vote(rank int, m *torchftpb.ShouldCommitRequest) (*count, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := quorum.RankVote{GroupRank: rank, Round: s.mu.attempt, Step: m.GetStep(), Vote: quorum.VoteNo}
	if m.GetShouldCommit() {
		v.Vote = quorum.VoteYes
	}
	if err := s.mu.tally.Vote(v); err != nil {
		return nil, err
	}
	c := s.mu.voted
	if c == nil || c.attempt != v.Round || c.step != v.Step {
		if c != nil {
			c.end(false, errOvertaken)
		}
		c = &count{attempt: v.Round, step: v.Step, decided: make(chan struct{})}
		s.mu.voted = c
	}
	if result := s.mu.tally.Result(); result.Decided() {
		c.end(result.Commits(), nil)
	}
	return c, nil
}

// abandon ends a step's vote whose rank has gone: the others must not commit
// what it may have given up.
func (s *Server) abandon(c *count, rank int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.end(false, fmt.Errorf("%w: group rank %d no longer waits for the votes on step %d", context.DeadlineExceeded, rank, c.step))
}

// end decides the vote, unless it is decided. The caller holds the server's lock.
func (c *count) end(commit bool, err error) {
	select {
	case <-c.decided:
	default:
		c.commit, c.err = commit, err
		close(c.decided)
	}
}
