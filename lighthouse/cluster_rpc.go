package lighthouse

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
)

// clusterService answers other servers, and operators about servers.
type clusterService struct {
	skerrypb.UnimplementedClusterServer
	server *Server
}

// errAlone says that a server without a cluster was asked about one.
var errAlone = errors.New("this lighthouse is alone: it was started without --bootstrap-expect and --join")

// Introduce implements skerrypb.ClusterServer.
func (s *clusterService) Introduce(_ context.Context, req *skerrypb.IntroduceRequest) (*skerrypb.IntroduceResponse, error) {
	c := s.server.cluster
	if c == nil {
		return nil, status.Error(codes.Unimplemented, errAlone.Error())
	}
	i, err := wire.IntroduceFromProto(req)
	if err != nil {
		return nil, wire.StatusError(err)
	}
	switch err := c.hear(i); {
	case errors.Is(err, errTwice):
		return nil, status.Error(codes.AlreadyExists, err.Error())
	case errors.Is(err, errClusters):
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	case err != nil:
		return nil, wire.StatusError(err)
	}
	known := c.addresses()
	return &skerrypb.IntroduceResponse{
		Self: wire.ServerToProto(c.present()), Known: known[:min(len(known), wire.MaxKnown)],
		YourIndex: c.acked(i.Self.RaftID), Retired: c.retired(i.Self.RaftID),
	}, nil
}

// passedKey marks a call that one server passed on to another.
const passedKey = "skerry-passed"

// passRetry is how long a call that found no leader waits before it looks again
// though nothing was heard of a new one.
const passRetry = 100 * time.Millisecond

// atLeader answers a call at the leader: here, or there. It asks again when the
// leader has changed meanwhile, until ctx ends or leaderWait has passed; the
// calls are idempotent. A call that was passed on already is not passed on.
func atLeader[Resp any](ctx context.Context, s *Server,
	here func(*cluster, *ledger) (Resp, error), there func(context.Context, skerrypb.ClusterClient) (Resp, error)) (Resp, error) {
	var none Resp
	c := s.cluster
	if c == nil {
		return none, status.Error(codes.FailedPrecondition, errAlone.Error())
	}
	passed := len(metadata.ValueFromIncomingContext(ctx, passedKey)) > 0
	ctx, cancel := context.WithTimeoutCause(ctx, leaderWait, errNotLeader)
	defer cancel()
	for {
		changed := c.leaderChanged()
		addr, self, ok := c.leader()
		switch {
		case ok && self:
			resp, err := here(c, c.openLedger())
			if !errors.Is(err, errNotLeader) || passed {
				return resp, clusterError(err)
			}
		case passed:
			return none, unavailable(errNotLeader)
		case ok:
			resp, err := passOn(ctx, c, addr, there)
			if status.Code(err) != codes.Unavailable {
				return resp, err
			}
		}
		select {
		case <-changed:
		case <-time.After(passRetry):
		case <-ctx.Done():
			return none, unavailable(context.Cause(ctx))
		}
	}
}

// passOn asks another server.
func passOn[Resp any](ctx context.Context, c *cluster, addr string,
	there func(context.Context, skerrypb.ClusterClient) (Resp, error)) (Resp, error) {
	conn, err := c.dial(addr)
	if err != nil {
		var none Resp
		return none, unavailable(errNotLeader)
	}
	defer func() { _ = conn.Close() }() // it has served
	// The caller's right was checked here; this server's own proof goes with the call.
	return there(metadata.NewOutgoingContext(ctx, metadata.Pairs(passedKey, "1")), skerrypb.NewClusterClient(conn))
}

// clusterError converts an error about servers for a caller.
func clusterError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errNoServer):
		return status.Error(codes.NotFound, err.Error())
	case errors.Is(err, errUnsafe):
		return status.Error(codes.FailedPrecondition, err.Error())
	}
	return unavailable(err)
}

// Members implements skerrypb.ClusterServer.
func (s *clusterService) Members(ctx context.Context, req *skerrypb.MembersRequest) (*skerrypb.MembersResponse, error) {
	return atLeader(ctx, s.server,
		func(c *cluster, l *ledger) (*skerrypb.MembersResponse, error) { return c.members(l) },
		func(ctx context.Context, client skerrypb.ClusterClient) (*skerrypb.MembersResponse, error) {
			return client.Members(ctx, req)
		})
}

// Remove implements skerrypb.ClusterServer.
func (s *clusterService) Remove(ctx context.Context, req *skerrypb.RemoveRequest) (*skerrypb.RemoveResponse, error) {
	name, err := wire.CheckServerName("raft_id", req.GetRaftId())
	if err != nil {
		return nil, wire.StatusError(err)
	}
	return atLeader(ctx, s.server,
		func(c *cluster, l *ledger) (*skerrypb.RemoveResponse, error) {
			return &skerrypb.RemoveResponse{}, c.remove(l, name, req.GetForce())
		},
		func(ctx context.Context, client skerrypb.ClusterClient) (*skerrypb.RemoveResponse, error) {
			return client.Remove(ctx, req)
		})
}

// TransferLeader implements skerrypb.ClusterServer.
func (s *clusterService) TransferLeader(ctx context.Context, req *skerrypb.TransferLeaderRequest) (*skerrypb.TransferLeaderResponse, error) {
	to, err := wire.CheckServerName("to", req.GetTo())
	if err != nil {
		return nil, wire.StatusError(err)
	}
	return atLeader(ctx, s.server,
		func(c *cluster, l *ledger) (*skerrypb.TransferLeaderResponse, error) {
			if err := c.transfer(l, to); err != nil {
				return nil, err
			}
			leader, _, _ := c.leader() // "" until the next one is heard
			return &skerrypb.TransferLeaderResponse{Leader: leader}, nil
		},
		func(ctx context.Context, client skerrypb.ClusterClient) (*skerrypb.TransferLeaderResponse, error) {
			return client.TransferLeader(ctx, req)
		})
}

// ask introduces this server to the one at an address. It returns nil if
// nobody answers, and an error if what answers does not go with us.
func (c *cluster) ask(ctx context.Context, address string) (*wire.Introduction, error) {
	conn, err := c.dial(address)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }() // it has served
	known := c.addresses()
	resp, err := skerrypb.NewClusterClient(conn).Introduce(ctx, &skerrypb.IntroduceRequest{
		Self: wire.ServerToProto(c.present()), Known: known[:min(len(known), wire.MaxKnown)]})
	switch status.Code(err) {
	case codes.OK:
	case codes.AlreadyExists:
		return nil, fmt.Errorf("%w: the server at %s says: %s", errTwice, address, status.Convert(err).Message())
	case codes.FailedPrecondition:
		return nil, fmt.Errorf("%w: the server at %s says: %s", errClusters, address, status.Convert(err).Message())
	default:
		return nil, fmt.Errorf("introduce this server to %s: %w", address, err)
	}
	i, err := wire.IntroducedFromProto(resp)
	if err != nil {
		return nil, fmt.Errorf("introduce this server to %s: %w", address, err)
	}
	if i.Retired {
		return nil, fmt.Errorf("%w; %s says so", errRetired, address)
	}
	if had := c.me().LastIndex; i.YourIndex > had && c.openLedger() == nil {
		return nil, fmt.Errorf("%w: it ends at %d, and %s had its word for %d", errOldCopy, had, address, i.YourIndex)
	}
	return &i, nil
}

// dial prepares a call to another server.
func (c *cluster) dial(address string) (*grpc.ClientConn, error) {
	options := append(wire.DialOptions(), c.guard.DialOptions(fellow(), "")...)
	if creds := c.cfg.Cluster.PeerCredentials; creds != nil {
		options = append(options, grpc.WithTransportCredentials(creds))
	}
	conn, err := grpc.NewClient("passthrough:///"+address, options...)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", address, err)
	}
	return conn, nil
}
