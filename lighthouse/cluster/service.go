package cluster

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/skerry-ft/skerry/internal/backoff"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
)

// errAlone says that a server without a cluster was asked about one.
var errAlone = errors.New("this lighthouse is alone: it was started without --bootstrap-expect and --join")

// service answers other servers, and operators about servers.
type service struct {
	skerrypb.UnimplementedClusterServer
	node *Node
}

// Service answers other servers, by Introduce, and operators: Members, Remove and
// TransferLeader are served by the leader alone. Elsewhere they are refused with
// wire.ErrNoLeader, and the caller forwards them.
func (n *Node) Service() skerrypb.ClusterServer { return &service{node: n} }

// Introduce implements skerrypb.ClusterServer.
func (s *service) Introduce(_ context.Context, req *skerrypb.IntroduceRequest) (*skerrypb.IntroduceResponse, error) {
	n := s.node
	if !n.several {
		return nil, status.Error(codes.Unimplemented, errAlone.Error())
	}
	i, err := wire.IntroduceFromProto(req)
	if err != nil {
		return nil, wire.StatusError(err)
	}
	switch err := n.hear(i); {
	case errors.Is(err, errTwice):
		return nil, status.Error(codes.AlreadyExists, err.Error())
	case errors.Is(err, errClusters):
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	case err != nil:
		return nil, wire.StatusError(err)
	}
	known := n.addresses()
	return &skerrypb.IntroduceResponse{
		Self: wire.ServerToProto(n.present()), Known: known[:min(len(known), wire.MaxKnown)],
		YourIndex: n.acked(i.Self.RaftID), Retired: n.retired(i.Self.RaftID),
	}, nil
}

// againAfter is how long a leader that cannot answer a call yet waits before it
// tries again.
const againAfter = 100 * time.Millisecond

// asLeader runs f while this server leads, again and again until it gives another
// error than ErrNotLeader: the leader has yet to hear from all servers, they changed
// meanwhile, or a handover came to nothing. It ends with ctx and with the leadership.
// f may be run twice.
func (n *Node) asLeader(ctx context.Context, f func(*Ledger) error) error {
	if !n.several {
		return status.Error(codes.FailedPrecondition, errAlone.Error())
	}
	for {
		err := ErrNotLeader
		l := n.Ledger()
		leads := l != nil && l.leads()
		if leads {
			err = f(l)
		}
		switch {
		case err == nil:
			return nil
		case errors.Is(err, errNoServer):
			return status.Error(codes.NotFound, err.Error())
		case errors.Is(err, errUnsafe):
			return status.Error(codes.FailedPrecondition, err.Error())
		case !leads || !errors.Is(err, ErrNotLeader):
			return wire.StatusError(err)
		}
		if backoff.Sleep(ctx, againAfter) != nil {
			return wire.StatusError(err)
		}
	}
}

// Members implements skerrypb.ClusterServer.
func (s *service) Members(ctx context.Context, _ *skerrypb.MembersRequest) (resp *skerrypb.MembersResponse, err error) {
	err = s.node.asLeader(ctx, func(l *Ledger) error {
		resp, err = s.node.members(l)
		return err
	})
	return resp, err
}

// Remove implements skerrypb.ClusterServer.
func (s *service) Remove(ctx context.Context, req *skerrypb.RemoveRequest) (*skerrypb.RemoveResponse, error) {
	name, err := wire.CheckServerName("raft_id", req.GetRaftId())
	if err != nil {
		return nil, wire.StatusError(err)
	}
	err = s.node.asLeader(ctx, func(l *Ledger) error { return s.node.remove(l, name, req.GetForce()) })
	return &skerrypb.RemoveResponse{}, err
}

// TransferLeader implements skerrypb.ClusterServer.
func (s *service) TransferLeader(ctx context.Context, req *skerrypb.TransferLeaderRequest) (*skerrypb.TransferLeaderResponse, error) {
	to, err := wire.CheckServerName("to", req.GetTo())
	if err != nil {
		return nil, wire.StatusError(err)
	}
	if err := s.node.asLeader(ctx, func(l *Ledger) error { return s.node.transfer(l, to) }); err != nil {
		return nil, err
	}
	leader, _, _ := s.node.Leader() // "" until the next one is heard
	return &skerrypb.TransferLeaderResponse{Leader: leader}, nil
}
