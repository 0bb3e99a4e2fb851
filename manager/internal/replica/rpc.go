package replica

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/manager/internal/final"
)

// rpcServer serves skerry.v1.Manager: for the replica's other ranks, for peers
// that heal, and for operators. It converts and bounds; server does the rest.
type rpcServer struct {
	skerrypb.UnimplementedManagerServer

	server *server
	kill   func(reason string) // nil: refused
}

// Quorum implements skerrypb.ManagerServer.
func (r *rpcServer) Quorum(ctx context.Context, m *skerrypb.RankQuorumRequest) (*skerrypb.RankQuorumResponse, error) {
	rep, err := wire.RankReportFromProto(m)
	if err != nil {
		return nil, wire.StatusError(err)
	}
	if _, err := wire.CheckGroupRank(m.GetGroupRank(), r.server.size); err != nil {
		return nil, wire.StatusError(err)
	}
	var got Reply
	if rep.Withdraw {
		r.server.setAway(rep.GroupRank, rep.Away)
		got = r.server.withdraw(rep)
	} else if got, err = r.server.Report(ctx, rep); err != nil {
		return nil, statusOf(err)
	}
	out := &skerrypb.RankQuorumResponse{
		ReplicaId: string(r.server.replica), VoidAttempt: got.VoidAttempt, Unanswered: got.Unanswered, VoteFirst: got.VoteFirst,
		Attempt: got.Attempt,
	}
	if got.Quorum != nil {
		out.Quorum = wire.QuorumToProto(*got.Quorum)
	}
	return out, nil
}

// Vote implements skerrypb.ManagerServer.
func (r *rpcServer) Vote(ctx context.Context, m *skerrypb.VoteRequest) (*skerrypb.VoteResponse, error) {
	v, err := wire.VoteFromProto(m)
	if err != nil {
		return nil, wire.StatusError(err)
	}
	if _, err := wire.CheckGroupRank(m.GetGroupRank(), r.server.size); err != nil {
		return nil, wire.StatusError(err)
	}
	result, err := r.server.vote(ctx, v)
	if err != nil {
		return nil, statusOf(err)
	}
	return wire.TallyResultToProto(result), nil
}

// Notices implements skerrypb.ManagerServer.
func (r *rpcServer) Notices(m *skerrypb.NoticesRequest, st grpc.ServerStreamingServer[skerrypb.RankNotice]) error {
	rank, err := wire.CheckGroupRank(m.GetGroupRank(), r.server.size)
	if err != nil {
		return wire.StatusError(err)
	}
	if rank == 0 {
		return status.Error(codes.InvalidArgument, "group rank 0 has the server in its own process")
	}
	r.server.linkOpened(rank)
	defer r.server.linkBroke(rank)
	err = r.server.subscribe(st.Context(), rank, func(n Notice) error {
		if m := noticeToProto(n); m != nil {
			return st.Send(m)
		}
		return nil
	})
	return statusOf(err)
}

// CheckpointMetadata implements skerrypb.ManagerServer.
func (r *rpcServer) CheckpointMetadata(_ context.Context, m *skerrypb.CheckpointMetadataRequest) (*skerrypb.CheckpointMetadataResponse, error) {
	rank, err := wire.CheckGroupRank(m.GetGroupRank(), r.server.size)
	if err != nil {
		return nil, wire.StatusError(err)
	}
	text := r.server.metadataOf(rank)
	if text == "" {
		return nil, status.Errorf(codes.Unavailable, "group rank %d has not reported yet", rank)
	}
	return &skerrypb.CheckpointMetadataResponse{Metadata: text}, nil
}

// Sources implements skerrypb.ManagerServer.
func (r *rpcServer) Sources(ctx context.Context, m *skerrypb.SourcesRequest) (*skerrypb.SourcesResponse, error) {
	if _, err := wire.CheckGroupRank(m.GetGroupRank(), r.server.size); err != nil {
		return nil, wire.StatusError(err)
	}
	s, err := r.server.session.Sources(ctx)
	if err != nil {
		return nil, statusOf(err)
	}
	return &skerrypb.SourcesResponse{Sources: wire.SourcesToProto(s)}, nil
}

// Kill implements skerrypb.ManagerServer.
func (r *rpcServer) Kill(_ context.Context, m *skerrypb.KillRequest) (*skerrypb.KillResponse, error) {
	if r.kill == nil {
		return nil, status.Error(codes.FailedPrecondition, "this replica does not take kills: Config.OnKill is not set")
	}
	reason := wire.Text(m.GetMessage())
	r.server.log.Warn().Str(logkey.Reason, reason).Msg("killed by an operator")
	r.kill(reason)
	return &skerrypb.KillResponse{}, nil
}

// metadataOf is what the rank last said of its checkpoint transport.
func (s *server) metadataOf(rank int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.metadata[rank]
}

// statusOf converts the errors of server, whose own sentinels travel as codes.
func statusOf(err error) error {
	for code, sentinel := range finals() {
		if errors.Is(err, sentinel) {
			return status.Error(code, wire.Text(err.Error()))
		}
	}
	return wire.StatusError(err)
}

// finals are the errors that end training in all ranks, as they travel.
func finals() map[codes.Code]error {
	return map[codes.Code]error{
		codes.PermissionDenied:   final.ErrRefused,
		codes.FailedPrecondition: final.ErrEvicted,
		codes.OutOfRange:         final.ErrDrained,
		codes.Aborted:            final.ErrRankLost,
		codes.Unavailable:        final.ErrClosed,
	}
}

// FromStatus is the inverse of statusOf.
func FromStatus(err error) error {
	s, ok := status.FromError(err)
	if err == nil || !ok {
		return err
	}
	if sentinel, ok := finals()[s.Code()]; ok && s.Code() != codes.Unavailable {
		return fmt.Errorf("%w: %s", sentinel, s.Message())
	}
	return wire.FromStatus(err)
}

// noticeToProto converts n; nil if it is not for other processes.
func noticeToProto(n Notice) *skerrypb.RankNotice {
	switch {
	case n.Hello != nil:
		return &skerrypb.RankNotice{Message: &skerrypb.RankNotice_Hello{Hello: &skerrypb.Hello{
			ReplicaId: n.Hello.ReplicaID, GroupWorldSize: uint32(n.Hello.GroupWorldSize)}}}
	case n.Sibling != nil:
		return &skerrypb.RankNotice{Message: &skerrypb.RankNotice_SiblingBroke{SiblingBroke: &skerrypb.SiblingBroke{
			QuorumId: n.Sibling.QuorumID, GroupRank: uint32(n.Sibling.GroupRank), Cause: wire.Text(n.Sibling.Cause)}}}
	case n.LighthouseBack:
		return nil
	}
	return wire.NoticeToRank(n.Notice)
}
