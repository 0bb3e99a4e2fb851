package torchft

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/internal/wire/torchftpb"
)

// round is one join of the replica: it begins with the first rank that asks,
// goes to the lighthouse when all have, and gives all the same quorum. Its
// fields are guarded by the server's lock until done is closed, and only read
// afterwards.
type round struct {
	asked    map[int]*torchftpb.ManagerQuorumRequest // by group rank
	waiting  int                                     // calls that wait for it
	deadline time.Time                               // of the rank that waits longest
	cancel   context.CancelFunc                      // of the join under way; nil before
	done     chan struct{}                           // closed when q or err is there
	q        *torchftpb.Quorum
	err      error
}

// enter adds a rank to the round that is open, unless too many calls wait for it, and
// sends the join when all are there. A rank that asks again replaces what it said.
func (s *Server) enter(rank int, m *torchftpb.ManagerQuorumRequest, deadline time.Time) (*round, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.metadata[rank] = m.GetCheckpointMetadata()
	r := s.mu.round
	if r == nil {
		r = &round{asked: make(map[int]*torchftpb.ManagerQuorumRequest), done: make(chan struct{})}
		s.mu.round = r
	}
	if r.waiting == maxWaiting {
		return nil, status.Errorf(codes.ResourceExhausted, "more than %d calls of the replica's ranks wait", maxWaiting)
	}
	r.asked[rank] = m
	r.waiting++
	if deadline.After(r.deadline) {
		r.deadline = deadline
	}
	if len(r.asked) == s.cfg.GroupWorldSize && r.cancel == nil {
		var ctx context.Context
		ctx, r.cancel = context.WithDeadline(s.ctx, r.deadline)
		req := &torchftpb.LighthouseQuorumRequest{Requester: s.memberLocked(r)}
		s.asking.Go(func() { s.ask(ctx, r, req) })
	}
	return r, nil
}

// leave takes a rank's call back; when none is left that waits, so is the join.
func (s *Server) leave(r *round) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.waiting--
	if r.waiting > 0 {
		return
	}
	if r.cancel != nil {
		r.cancel()
	}
	if s.mu.round == r {
		s.mu.round = nil
	}
}

// memberLocked is what the replica says of itself. Where its ranks differ, the
// one that is furthest behind counts: the replica heals, rather than give
// others a state that not all of it has.
func (s *Server) memberLocked(r *round) *torchftpb.QuorumMember {
	m := &torchftpb.QuorumMember{
		ReplicaId: s.cfg.ReplicaID, Address: s.address, StoreAddress: s.cfg.StoreAddress,
		WorldSize: uint64(s.cfg.GroupWorldSize), Step: r.asked[0].GetStep(),
	}
	handles, said := make([]string, s.cfg.GroupWorldSize), false
	for rank, req := range r.asked {
		if req.GetStep() != m.GetStep() {
			s.cfg.Log.Warn().Int(logkey.GroupRank, rank).Int64(logkey.Step, req.GetStep()).
				Int64("other_step", m.GetStep()).Msg("ranks at different steps")
		}
		m.Step = min(m.GetStep(), req.GetStep())
		m.ShrinkOnly = m.GetShrinkOnly() || req.GetShrinkOnly()
		m.CommitFailures = max(m.GetCommitFailures(), req.GetCommitFailures())
		handles[rank] = req.GetReconfigureHandle()
		said = said || handles[rank] != ""
	}
	if said {
		m.ReconfigureHandles = handles
	}
	return m
}

// ask joins for the replica and hands the answer to all ranks that wait.
func (s *Server) ask(ctx context.Context, r *round, req *torchftpb.LighthouseQuorumRequest) {
	defer r.cancel()
	resp, err := s.servers.quorum(ctx, req)
	s.mu.Lock()
	defer s.mu.Unlock()
	r.q, r.err = resp.GetQuorum(), err
	if s.mu.round == r {
		s.mu.round = nil
	}
	s.mu.attempt++
	close(r.done)
}
