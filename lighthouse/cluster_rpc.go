package lighthouse

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
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
		YourIndex: c.acked(i.Self.RaftID),
	}, nil
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
	return &i, nil
}

// dial prepares a call to another server.
func (c *cluster) dial(address string) (*grpc.ClientConn, error) {
	options := append(wire.DialOptions(), c.guard.DialOptions("")...)
	if creds := c.cfg.Cluster.PeerCredentials; creds != nil {
		options = append(options, grpc.WithTransportCredentials(creds))
	}
	conn, err := grpc.NewClient("passthrough:///"+address, options...)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", address, err)
	}
	return conn, nil
}
